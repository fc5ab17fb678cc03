"""The races of decisions on MariaDB or MySQL."""

from __future__ import annotations

from tests.races.mysql import MysqlStage, mark
from tests.races.test_decisions import Crowd

pytestmark = mark


class TestAtOnceOnMysql(Crowd, MysqlStage):
    pass
