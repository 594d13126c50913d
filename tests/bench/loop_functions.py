"""The body of a training loop as a function, as a person would write it who wants it accelerated.

Where a script has no function for its step, the innermost loop that runs backward() becomes one: `with_function` takes the
statements from a first one, up to the last that trains, and gives them as arguments and returns to them what the rest
of the script reads. What comes before and behind stays where it is: batches are taken outside, values are printed and kept there.
"""

import ast
import copy
import dataclasses

TRAINS = ("backward", "step", "zero_grad")
NAME = "_step_of_loop"


@dataclasses.dataclass
class Function:
    script: str
    trains: int  # the statement of the loop that trains first


@dataclasses.dataclass
class Loop:
    parent: list         # the list of statements that holds it
    node: ast.For
    around: list         # the loops around it, outermost first
    function: object     # the function that it is in, or None


def calls(node, names):
    return any(isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in names
               for each in ast.walk(node))


def loops(tree):
    """The innermost loops that run backward()."""
    found = []

    def visit(body, around, function):
        for node in body:
            here = around
            if isinstance(node, (ast.For, ast.While)):
                inner = any(isinstance(each, (ast.For, ast.While)) and calls(each, ("backward",))
                            for each in ast.walk(node) if each is not node)
                if calls(node, ("backward",)) and not inner:
                    found.append(Loop(body, node, around, function))
                    continue
                here = [*around, node]
            inside = node if isinstance(node, ast.FunctionDef) else function
            for field in ("body", "orelse", "finalbody"):
                visit(getattr(node, field, []), here, inside)

    visit(tree.body, [], None)
    return found


class Names(ast.NodeVisitor):
    """Names in the order in which statements read and write them; functions and comprehensions only read."""

    def __init__(self):
        self.seen, self.depth = [], 0

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load):
            self.seen.append((node.id, "read"))
        elif not self.depth:
            self.seen.append((node.id, "write"))

    def visit_Assign(self, node):
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_AugAssign(self, node):
        if isinstance(node.target, ast.Name):
            self.seen.append((node.target.id, "read"))
        self.visit(node.value)
        self.visit(node.target)

    def visit_For(self, node):
        self.visit(node.iter)
        for each in (node.target, *node.body, *node.orelse):
            self.visit(each)

    def deeper(self, node):
        self.depth += 1
        own = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        own |= {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        before = len(self.seen)
        self.generic_visit(node)
        self.seen[before:] = [each for each in self.seen[before:] if each[0] not in own]
        self.depth -= 1

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda = deeper

    def visit_FunctionDef(self, node):
        self.deeper(node)
        self.seen.append((node.name, "write"))


def order(statements):
    names = Names()
    for each in statements:
        names.visit(each)
    return names.seen


def written(statements):
    return {name for name, how in order(statements) if how == "write"}


def read_first(statements, elsewhere):
    """Names that may be read before the statements have written them, and those that only one branch writes and that are
    read behind it or `elsewhere`."""
    found, certain = set(), set()
    for at, each in enumerate(statements):
        is_certain = not isinstance(each, (ast.If, ast.For, ast.While, ast.Try))
        inside = set()
        for name, how in order([each]):
            if how == "read" and name not in certain and name not in inside:
                found.add(name)
            elif how == "write":
                inside.add(name)
        if is_certain:
            certain |= inside
        else:
            behind = read_first(statements[at + 1:], set())
            found |= (inside - certain) & (behind | elsewhere)  # kept from before where the branch is not taken
    return found


def repeated(loop, times):
    """Has the outermost loop around run so many times as often."""
    outermost = loop.around[0] if loop.around else loop.node
    count = outermost.iter if isinstance(outermost, ast.For) else None
    is_range = isinstance(count, ast.Call) and isinstance(count.func, ast.Name) and count.func.id == "range"
    if is_range and len(count.args) == 1:
        count.args[0] = ast.BinOp(count.args[0], ast.Mult(), ast.Constant(times))
        return
    body = loop.parent if outermost is loop.node else None
    if body is None:
        return
    again = ast.parse(f"for _again in range({times}):\n    pass").body[0]
    again.body = [outermost]
    body[body.index(outermost)] = again


def with_function(source, first=0, times=1, after=""):
    """The script with its loop's body, from statement `first` on, as a function called NAME, and so many times its
    iterations; `after` is a line of code behind the function, {name} in it is its name. None where the body cannot be one."""
    tree = ast.parse(source)
    found = [loop for loop in loops(tree) if isinstance(loop.node, ast.For)]
    if not found:
        return None
    loop = found[0]
    body = loop.node.body
    if any(isinstance(each, (ast.Break, ast.Return, ast.Yield)) for node in body for each in ast.walk(node)):
        return None
    trains = [at for at, each in enumerate(body) if calls(each, TRAINS)]
    backward = next(at for at, each in enumerate(body) if calls(each, ("backward",)))
    last = trains[-1]
    if first > trains[0] and first > backward:
        return None
    chosen = body[first:last + 1]
    if any(isinstance(each, ast.Continue) for node in chosen for each in ast.walk(node)):
        return None
    names = written(chosen)
    outside = copy.deepcopy(tree)
    marker = [each for each in loops(outside) if isinstance(each.node, ast.For)][0]
    marker.node.body = marker.node.body[:first] + marker.node.body[last + 1:] or [ast.Pass()]
    elsewhere = {each.id for each in ast.walk(outside) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    before_first = written(body[:first]) | written([ast.Assign([loop.node.target], ast.Constant(None))])
    reads = read_first(chosen, elsewhere)
    carried = reads & names
    everything = {name for name, how in order(chosen) if how == "read"}
    given = sorted(carried | (everything & before_first))
    back = sorted(names & (elsewhere | carried))
    function = ast.parse(f"def {NAME}({', '.join(given)}):\n    pass").body[0]
    function.body = list(chosen)
    if back:
        function.body.append(ast.Return(ast.parse(f"({', '.join(back)},)").body[0].value))
    call = f"{NAME}({', '.join(given)})"
    call = ast.parse(f"({', '.join(back)},) = {call}" if back else call).body[0]
    loop.node.body = [*body[:first], call, *body[last + 1:]]
    repeated(loop, times)
    place = loop.function.body if loop.function is not None else tree.body
    at = next(index for index, each in enumerate(place) if any(inner is loop.node for inner in ast.walk(each)))
    place[at:at] = [function, *ast.parse(after.format(name=NAME)).body]
    ast.fix_missing_locations(tree)
    return Function(ast.unparse(tree), trains[0])
