"""A tool: a name, what it does, what it takes, and the function behind it."""

import ast
import asyncio
import operator

from pydantic import BaseModel, Field

from examples.offline import model_of
from lattice import create_bare_agent, tool
from lattice.testing import tool_use, turn

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


class Expression(BaseModel):
    expr: str = Field(description="Sums, differences, products and quotients of numbers, such as 2 * (3 + 4).")


def value_of(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](value_of(node.left), value_of(node.right))
    raise ValueError("only numbers and + - * / are understood")


@tool("calculator", "Work out a simple arithmetic expression.", Expression)
async def calculator(value: Expression):
    return str(value_of(ast.parse(value.expr, mode="eval").body))


async def main():
    agent = create_bare_agent(
        **model_of(
            turn(tool_use("calculator", {"expr": "__import__('os')"})),
            turn(tool_use("calculator", {"expr": "6 * (3 + 4)"})),
            "It is 42.",
        ),
        tools=[calculator],
    )
    async for message in agent.query("What is 6 * (3 + 4)?", stream=False):
        if message.type == "user":
            print("tool:", message.tool_use_result)
        if message.type == "result":
            print("answer:", message.result)


if __name__ == "__main__":
    asyncio.run(main())
