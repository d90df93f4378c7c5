import pytest

from tests.rq.house import House


@pytest.fixture
async def house(redis_url):
    house = House(redis_url)
    yield house
    await house.close()


@pytest.fixture
def engine(house):
    return house.engine
