import csv
import sqlite3
from typing import Annotated

from pinion import Call, Commands, Output, ToolError, Tools, command, submit, tool


@tool(reads=True)
def csv_sql(call: Call, path: Annotated[str, "The CSV file"], sql: Annotated[str, "A query of the table `data`"], limit: int = 100):
    """Runs an SQL query on a CSV file, whose first line names the columns of the table `data`. The dialect is SQLite's."""
    with open(call.path(path), newline="") as file:
        header, *rows = csv.reader(file)
    database = sqlite3.connect(":memory:")
    columns = ", ".join('"' + name.replace('"', '""') + '" NUMERIC' for name in header)
    database.execute(f"CREATE TABLE data ({columns})")
    marks = ", ".join("?" * len(header))
    database.executemany(f"INSERT INTO data VALUES ({marks})", (row for row in rows if len(row) == len(header)))
    call.check()
    try:
        found = database.execute(sql)
        table = [[name for name, *_ in found.description or []], *found.fetchmany(limit)]
    except sqlite3.Error as error:
        raise ToolError(f"{error}; the columns are {', '.join(header)}", "invalid-input")
    return Output("\n".join("\t".join(map(str, row)) for row in table), details={"rows": len(table) - 1})


@command(hint="<file> <question>")
def ask_csv(input):
    """Ask a question about a CSV file"""
    return submit(f"Answer with csv_sql: {input}")
