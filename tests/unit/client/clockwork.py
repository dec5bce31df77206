"""An app that does things again and again."""

from datetime import timedelta

from ganger import Ganger
from ganger.client import command

app = Ganger("memory:", name="clockwork", upkeep=False)


@app.cron("*/5 * * * *", tz="Europe/Berlin", queue="reports", retries=2)
def report(kind: str = "short") -> str:
    return kind


@app.every(timedelta(minutes=15), name="tidying", overlap=True)
@app.task(timeout=9)
async def tidy() -> int:
    return 1


app.schedule("backup", command(["make", "backup"], priority=3), cron="@daily", missed="all", most=7)
