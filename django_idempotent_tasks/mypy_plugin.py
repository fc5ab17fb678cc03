"""For mypy: ``plugins = ["django_idempotent_tasks.mypy_plugin"]``, beside celery-types.

Typing cannot say that what a decorator returns takes the arguments of the function it is given where the
class of the result is itself an argument, ``base=IdempotentTask``. With this plugin ``charge.delay(...)``,
``charge.si(...)`` and ``charge(...)`` are checked against the body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mypy.nodes import ARG_POS, ARG_STAR, ARG_STAR2, Expression, NameExpr
from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    ParamSpecFlavor,
    ParamSpecType,
    Type,
    TypeOfAny,
    TypeVarId,
    TypeVarType,
    get_proper_type,
)

MIXIN = "django_idempotent_tasks.task.mixin.IdempotentTaskMixin"
FUNCTION = "celery.app.shared_task"
METHOD = "celery.app.base.Celery.task"

Context = FunctionContext | MethodContext


class TaskArguments(Plugin):
    """Gives guarded tasks the parameters and the result of their bodies."""

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return _decorator if fullname == FUNCTION else None

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return _decorator if fullname == METHOD else None


def plugin(_version: str) -> type[Plugin]:
    """Mypy's entry point."""
    return TaskArguments


def _decorator(context: Context) -> Type:
    """``(Callable[P, R]) -> IdempotentTask[P, R]``; what it was before for tasks of other classes."""
    given = get_proper_type(context.default_return_type)
    if not isinstance(given, CallableType):
        return context.default_return_type
    task = get_proper_type(given.ret_type)
    if not isinstance(task, Instance) or not task.type.has_base(MIXIN):
        return context.default_return_type
    variables = task.type.defn.type_vars
    if [type(variable) for variable in variables] != [ParamSpecType, TypeVarType]:
        return context.default_return_type  # a class of the project's own, which says what it takes
    is_bound = _is_bound(context)
    if is_bound is None:
        return context.default_return_type
    of_body = [variable.copy_modified(id=TypeVarId.new(meta_level=0)) for variable in variables]
    body = _body(given, of_body, is_bound=is_bound)
    return given.copy_modified(
        arg_types=[body],
        arg_kinds=[ARG_POS],
        arg_names=[None],
        ret_type=Instance(task.type, of_body),
        variables=of_body,
    )


def _body(given: CallableType, of_body: Sequence[Type], *, is_bound: bool) -> CallableType:
    """``Callable[P, R]``, behind the task itself where ``bind=True``."""
    parameters, result = of_body
    assert isinstance(parameters, ParamSpecType)  # noqa: S101  tells mypy what the caller has seen
    rest = [parameters.with_flavor(ParamSpecFlavor.ARGS), parameters.with_flavor(ParamSpecFlavor.KWARGS)]
    itself: list[Type] = [AnyType(TypeOfAny.special_form)] if is_bound else []
    return CallableType(
        arg_types=[*itself, *rest],
        arg_kinds=[*([ARG_POS] * len(itself)), ARG_STAR, ARG_STAR2],
        arg_names=[None] * (len(itself) + 2),
        ret_type=result,
        fallback=given.fallback,
    )


def _is_bound(context: Context) -> bool | None:
    """Whether ``bind=True`` is written there; None where the text does not say what a call takes.

    That is where options come in a mapping, or as something else than ``True`` and ``False``, and with
    ``pydantic=True``, where a call takes what the models of the body are made of.
    """
    named = zip(context.arg_names, context.args, strict=True)
    given = {name: value for names, values in named for name, value in zip(names, values, strict=True)}
    if any(kind.is_star() for kinds in context.arg_kinds for kind in kinds):
        return None
    return None if _said(given.get("pydantic")) is not False else _said(given.get("bind"))


def _said(value: Expression | None) -> bool | None:
    if value is None:
        return False
    name = value.fullname if isinstance(value, NameExpr) else ""
    return {"builtins.True": True, "builtins.False": False}.get(name)
