"""What a command is about: the user's words resolved to a function or module, perhaps with a call or a line.

Input: an expression and the user's namespace. Output: a Target. It evaluates the user's names and arguments once and calls nothing
but what is needed for that.
"""

import ast
import builtins
import functools
import types
from dataclasses import dataclass

from dyno.magics.errors import UsageError, article, reason_of, similar


@dataclass(frozen=True)
class Target:
    """``name`` is the function's expression as typed; ``args`` is None where no call was given."""

    name: str
    function: object
    args: tuple | None = None
    kwargs: dict | None = None
    line: int | None = None
    call: str | None = None


def resolve(words, namespace):
    """The target of ``f``, ``f(x)``, ``f:LINE`` or a dotted expression."""
    expression, line = line_suffix(words)
    tree = parsed(expression)
    function_tree = tree.body.func if isinstance(tree.body, ast.Call) else tree.body
    names_exist(tree, namespace)
    name = ast.unparse(function_tree)
    function = value_of(function_tree, name, namespace)
    check_kind(name, function)
    if not isinstance(tree.body, ast.Call):
        return Target(name, function, line=line)
    args, kwargs = arguments(tree.body, namespace)
    return Target(name, function, args, kwargs, line, expression)


def line_suffix(words):
    """``f:40`` as ("f", 40); other expressions as they are."""
    head, colon, tail = words.rpartition(":")
    if colon and tail.strip().isdigit() and head.strip():
        return head.strip(), int(tail)
    return words.strip(), None


def parsed(expression):
    """The expression's tree."""
    try:
        return ast.parse(expression, mode="eval")
    except SyntaxError as error:
        raise UsageError(f"'{expression}' is not a Python expression: {error.msg}") from None


def names_exist(tree, namespace):
    """Raises for the first name that is neither the user's nor built in."""
    bound = {
        argument.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.arguments)
        for argument in [*node.posonlyargs, *node.args, *node.kwonlyargs]
    }
    bound |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in bound and node.id not in namespace and not hasattr(builtins, node.id):
            near = similar(node.id, [name for name in namespace if not name.startswith("_")])
            raise UsageError(f"'{node.id}' is not defined." + (f" Similar: {', '.join(near)}" if near else ""))


def evaluated(tree, namespace):
    """The value of one expression tree."""
    return eval(compile(ast.Expression(tree), "<%dyno>", "eval"), namespace)  # the user's own expression, in the user's own names


def value_of(tree, name, namespace):
    """The function's value; an attribute that is missing is named with its neighbours."""
    try:
        return evaluated(tree, namespace)
    except AttributeError as error:
        owner, _, attribute = name.rpartition(".")
        known = dir(getattr(error, "obj", None)) if getattr(error, "name", None) == attribute else []
        near = similar(attribute, [item for item in known if not item.startswith("_")])
        raise UsageError(f"'{owner}' has no attribute '{attribute}'." + (f" Similar: {', '.join(near)}" if near else "")) from None
    except Exception as error:
        raise UsageError(f"'{name}' cannot be evaluated: {reason_of(error)}") from None


def arguments(call, namespace):
    """Positional and keyword arguments of the call, evaluated once, in order."""
    args, kwargs = [], {}
    try:
        for node in call.args:
            value = evaluated(node.value if isinstance(node, ast.Starred) else node, namespace)
            args.extend(value) if isinstance(node, ast.Starred) else args.append(value)
        for keyword in call.keywords:
            value = evaluated(keyword.value, namespace)
            kwargs.update(value) if keyword.arg is None else kwargs.__setitem__(keyword.arg, value)
    except Exception as error:
        raise UsageError(f"the arguments cannot be evaluated: {reason_of(error)}") from None
    return tuple(args), kwargs


def check_kind(name, value):
    """Raises unless ``value`` is something with Python code to compile."""
    if python_code(value) is not None:
        return
    if isinstance(
        value, (types.BuiltinFunctionType, types.BuiltinMethodType, types.MethodDescriptorType, types.WrapperDescriptorType)
    ) or builtin_class(value):
        raise UsageError(f"'{name}' is built in: it has no Python code to compile")
    if isinstance(value, type):
        own = [key for key, item in vars(value).items() if isinstance(item, types.FunctionType)]
        best = next((key for key in ("forward", "__call__", *(key for key in own if not key.startswith("_"))) if key in own), None)
        raise UsageError(f"'{name}' is a class, not a function or module" + (f"; name one of its methods: {name}.{best}" if best else ""))
    raise UsageError(f"'{name}' is {article(type(value).__name__)}, not a function or module")


def builtin_class(value):
    """True for the classes of ``builtins`` themselves."""
    return isinstance(value, type) and value.__module__ == "builtins"


def plain(function):
    """The plain function or object behind ``dyno.compile``'s result."""
    from dyno import _backend

    while isinstance(function, _backend.core.Compiled):
        function = function.__wrapped__
    return function


def python_code(value):
    """The code object that a call of ``value`` runs first, or ``None``."""
    value = plain(value)
    while isinstance(value, functools.partial):
        value = plain(value.func)
    if isinstance(value, type):
        return None
    function = getattr(value, "__func__", value)
    if isinstance(function, types.FunctionType):
        return function.__code__
    forward = getattr(value, "forward", None)
    if hasattr(type(value), "_call_impl") and isinstance(getattr(forward, "__func__", forward), types.FunctionType):
        return getattr(forward, "__func__", forward).__code__
    call = getattr(type(value), "__call__", None)
    return call.__code__ if isinstance(call, types.FunctionType) else None
