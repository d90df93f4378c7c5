"""Teams: a lead, its members, and the engine that carries handoffs between them."""
