"""Random programs: integer arithmetic on scalars and tiles, masked memory, conditions and loops, full of constants."""

from __future__ import annotations

import random

TILES = {"s": "i32", "r": "tensor<4x1xi32>", "c": "tensor<1x8xi32>", "t": "tensor<4x8xi32>", "u": "tensor<8x4xi32>"}
BINARY = ("addi", "subi", "muli", "divsi", "remsi", "andi", "ori", "xori", "minsi", "maxsi", "shli", "shrui", "addi")
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "uge")
MEMORY = 12


class RandomProgram:
    """The text of a kernel with two i32 that reads and writes memory of MEMORY i32."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        pools = {"s": ["%a", "%b"], "r": [], "c": [], "t": [], "u": []}
        self.row_and_column(pools)
        self.statements(pools, 10, depth=0)
        result = self.pick(pools, "s")
        body = "\n".join([*self.lines, f"tt.store %m, {result} : !tt.ptr<i32>", "tt.return"])
        self.text = f"module {{\ntt.func public @f(%a: i32, %b: i32, %m: !tt.ptr<i32>) {{\n{body}\n}}\n}}"

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def add(self, line: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {line}")
        return name

    def pick(self, pools: dict[str, list[str]], kind: str) -> str:
        """A value of the kind: one that exists, or a constant."""
        if pools[kind] and self.rng.random() < 0.75:
            return self.rng.choice(pools[kind])
        value = self.rng.choice([0, 1, -1, 2, 3, 8, 31, -7])
        literal = str(value) if kind == "s" else f"dense<{value}>"
        return self.add(f"arith.constant {literal} : {TILES[kind]}")

    def row_and_column(self, pools: dict[str, list[str]]) -> None:
        for kind, axis, extent in (("r", 1, 4), ("c", 0, 8)):
            steps = self.add(f"tt.make_range {{start = 0 : i32, end = {extent} : i32}} : tensor<{extent}xi32>")
            pools[kind].append(
                self.add(f"tt.expand_dims {steps} {{axis = {axis} : i32}} : tensor<{extent}xi32> -> {TILES[kind]}")
            )

    def statements(self, pools: dict[str, list[str]], count: int, depth: int) -> None:
        for _ in range(count):
            choices = [self.arithmetic] * 5 + [self.select, self.move, self.store, self.load, self.cast]
            if depth < 2:
                choices += [self.condition, self.loop, self.while_loop]
            statement = self.rng.choice(choices)
            statement(pools, depth)

    def arithmetic(self, pools: dict[str, list[str]], depth: int) -> None:
        kind = self.rng.choice("ssrctu")
        a, b = self.pick(pools, kind), self.pick(pools, kind)
        pools[kind].append(self.add(f"arith.{self.rng.choice(BINARY)} {a}, {b} : {TILES[kind]}"))

    def comparison(self, pools: dict[str, list[str]], kind: str) -> str:
        a, b = self.pick(pools, kind), self.pick(pools, kind)
        result = self.add(f"arith.cmpi {self.rng.choice(PREDICATES)}, {a}, {b} : {TILES[kind]}")
        if self.rng.random() < 0.2:
            type = TILES[kind].replace("i32", "i1")
            true = self.add("arith.constant true" if kind == "s" else f"arith.constant dense<true> : {type}")
            result = self.add(f"arith.xori {result}, {true} : {type}")
        return result

    def select(self, pools: dict[str, list[str]], depth: int) -> None:
        kind = self.rng.choice("ssrctu")
        condition = self.comparison(pools, kind)
        a, b = self.pick(pools, kind), self.pick(pools, kind)
        shown = "" if kind == "s" else TILES[kind].replace("i32", "i1") + ", "
        pools[kind].append(self.add(f"arith.select {condition}, {a}, {b} : {shown}{TILES[kind]}"))

    def move(self, pools: dict[str, list[str]], depth: int) -> None:
        """Splat, broadcast or transpose something."""
        source, target, op = self.rng.choice(
            [("s", k, "splat") for k in "rctu"] + [("r", "t", "broadcast"), ("c", "t", "broadcast")] * 2
            + [("t", "u", "trans"), ("u", "t", "trans"), ("t", "u", "reshape"), ("u", "t", "reshape")]
        )
        attributes = " {order = array<i32: 1, 0>}" if op == "trans" else ""
        value = self.pick(pools, source)
        pools[target].append(self.add(f"tt.{op} {value}{attributes} : {TILES[source]} -> {TILES[target]}"))

    def cast(self, pools: dict[str, list[str]], depth: int) -> None:
        kind = self.rng.choice("srct")
        narrow, wider = (TILES[kind].replace("i32", choice) for choice in (self.rng.choice(["i8", "i1"]), "i16"))
        value = self.add(f"arith.trunci {self.pick(pools, kind)} : {TILES[kind]} to {narrow}")
        first, second = self.rng.choice(["extsi", "extui"]), self.rng.choice(["extsi", "extui"])
        wide = self.add(f"arith.{first} {value} : {narrow} to {wider}")
        pools[kind].append(self.add(f"arith.{second} {wide} : {wider} to {TILES[kind]}"))

    def address(self, pools: dict[str, list[str]], kind: str) -> tuple[str, str]:
        """Pointers into memory, and a mask that keeps them inside."""
        type = TILES[kind]
        pointers = type.replace("i32", "!tt.ptr<i32>")
        base = "%m" if kind == "s" else self.add(f"tt.splat %m : !tt.ptr<i32> -> {pointers}")
        limit = "arith.constant " + (f"{MEMORY}" if kind == "s" else f"dense<{MEMORY}>") + f" : {type}"
        offset, bound = self.pick(pools, kind), self.add(limit)
        if self.rng.random() < 0.5:
            offset = self.add(f"arith.remui {offset}, {bound} : {type}")
        inside = self.add(f"arith.cmpi ult, {offset}, {bound} : {type}")
        return self.add(f"tt.addptr {base}, {offset} : {pointers}, {type}"), inside

    def load(self, pools: dict[str, list[str]], depth: int) -> None:
        kind = self.rng.choice("ssrct")
        pointer, mask = self.address(pools, kind)
        other = self.pick(pools, kind)
        loaded = self.add(f"tt.load {pointer}, {mask}, {other} : {TILES[kind].replace('i32', '!tt.ptr<i32>')}")
        if self.rng.random() < 0.5:
            shown = "" if kind == "s" else TILES[kind].replace("i32", "i1") + ", "
            if self.rng.random() < 0.2:
                mask = self.comparison(pools, kind)
            if self.rng.random() < 0.2:
                self.store(pools, depth)
            loaded = self.add(f"arith.select {mask}, {loaded}, {self.pick(pools, kind)} : {shown}{TILES[kind]}")
        pools[kind].append(loaded)

    def store(self, pools: dict[str, list[str]], depth: int) -> None:
        kind = self.rng.choice("ssrct")
        pointer, mask = self.address(pools, kind)
        value = self.pick(pools, kind)
        self.lines.append(f"tt.store {pointer}, {value}, {mask} : {TILES[kind].replace('i32', '!tt.ptr<i32>')}")

    def carried(self, pools: dict[str, list[str]]) -> list[tuple[str, str]]:
        """Kinds and initial values of what a region carries."""
        kinds = [self.rng.choice("ssrt") for _ in range(self.rng.randrange(0, 4))]
        values = [(kind, self.pick(pools, kind)) for kind in kinds]
        return values + values[:1] if self.rng.random() < 0.3 else values

    def body(self, pools: dict[str, list[str]], kinds: list[str], depth: int) -> list[str]:
        """Statements of a region; returns what it yields, among it values it got unchanged."""
        self.statements(pools, self.rng.randrange(0, 5), depth + 1)
        return [self.pick(pools, kind) for kind in kinds]

    def finish(self, pools: dict[str, list[str]], kinds: list[str], name: str) -> None:
        for i, kind in enumerate(kinds):
            pools[kind].append(f"{name}#{i}" if len(kinds) > 1 else name)

    def copied(self, pools: dict[str, list[str]]) -> dict[str, list[str]]:
        return {kind: list(values) for kind, values in pools.items()}

    def head(self, name: str, kinds: list[str]) -> str:
        return "" if not kinds else f"{name}{f':{len(kinds)}' if len(kinds) > 1 else ''} = "

    def types(self, kinds: list[str]) -> str:
        return ", ".join(TILES[kind] for kind in kinds)

    def yields(self, op: str, values: list[str], kinds: list[str]) -> None:
        self.lines.append(f"{op} {', '.join(values)} : {self.types(kinds)}" if kinds else op)

    def condition(self, pools: dict[str, list[str]], depth: int) -> None:
        kinds = [self.rng.choice("ssrt") for _ in range(self.rng.randrange(0, 3))]
        condition = self.comparison(pools, "s")
        name = self.name()
        results = f" -> ({self.types(kinds)})" if kinds else ""
        self.lines.append(f"{self.head(name, kinds)}scf.if {condition}{results} {{")
        self.yields("scf.yield", self.body(self.copied(pools), kinds, depth), kinds)
        self.lines.append("} else {")
        self.yields("scf.yield", self.body(self.copied(pools), kinds, depth), kinds)
        self.lines.append("}")
        self.finish(pools, kinds, name)

    def loop(self, pools: dict[str, list[str]], depth: int) -> None:
        carried = self.carried(pools)
        kinds = [kind for kind, _ in carried]
        low, step = (self.add(f"arith.constant {self.rng.choice(c)} : i32") for c in ([0, 1, 5], [1, 2, 3]))
        bound = self.pick(pools, "s")
        limit = self.add("arith.constant 7 : i32")
        high = self.add(f"arith.minsi {bound}, {limit} : i32")
        name, counter, inner = self.name(), self.name(), self.copied(pools)
        arguments = [self.name() for _ in carried]
        for argument, kind in zip(arguments, kinds, strict=True):
            inner[kind] += [argument] * 2
        inner["s"].append(counter)
        starts = ", ".join(f"{argument} = {value}" for argument, (_, value) in zip(arguments, carried, strict=True))
        state = f" iter_args({starts}) -> ({self.types(kinds)})" if carried else ""
        self.lines.append(f"{self.head(name, kinds)}scf.for {counter} = {low} to {high} step {step}{state} : i32 {{")
        values = self.body(inner, kinds, depth)
        increment = {kind: self.pick(pools, kind) for kind in kinds}
        for i, (argument, kind) in enumerate(zip(arguments, kinds, strict=True)):
            choice = self.rng.random()
            if choice < 0.25:
                values[i] = argument
            elif choice < 0.6:
                values[i] = self.add(
                    f"arith.{self.rng.choice(BINARY[:2])} {argument}, {increment[kind]} : {TILES[kind]}"
                )
        self.yields("scf.yield", values, kinds)
        factor = f" {{tt.loop_unroll_factor = {self.rng.choice([1, 2, 3])} : i32}}"
        self.lines.append("}" + (factor if self.rng.random() < 0.3 else ""))
        self.finish(pools, kinds, name)

    def while_loop(self, pools: dict[str, list[str]], depth: int) -> None:
        """Counts down from at most 5; the other values are arbitrary."""
        carried = [("s", self.add(f"arith.constant {self.rng.choice([0, 1, 3, 5])} : i32")), *self.carried(pools)]
        kinds = [kind for kind, _ in carried]
        name, zero, one = self.name(), self.add("arith.constant 0 : i32"), self.add("arith.constant 1 : i32")
        before, after = ([self.name() for _ in carried] for _ in range(2))
        starts = ", ".join(f"{argument} = {value}" for argument, (_, value) in zip(before, carried, strict=True))
        types = self.types(kinds)
        self.lines.append(f"{self.head(name, kinds)}scf.while ({starts}) : ({types}) -> ({types}) {{")
        inner = self.copied(pools)
        for argument, kind in zip(before[1:], kinds[1:], strict=True):
            inner[kind].append(argument)
        passed = [a if self.rng.random() < 0.6 else self.pick(inner, k) for a, k in zip(before, kinds, strict=True)]
        running = self.add(f"arith.cmpi sgt, {before[0]}, {zero} : i32")
        self.lines.append(f"scf.condition({running}) {', '.join([before[0], *passed[1:]])} : {types}")
        arguments = ", ".join(f"{a}: {TILES[k]}" for a, k in zip(after, kinds, strict=True))
        self.lines.append(f"}} do {{\n^bb0({arguments}):")
        inner = self.copied(pools)
        for argument, kind in zip(after, kinds, strict=True):
            inner[kind].append(argument)
        values = self.body(inner, kinds, depth)
        values = [a if self.rng.random() < 0.25 else v for a, v in zip(after, values, strict=True)]
        values[0] = self.add(f"arith.subi {after[0]}, {one} : i32")
        self.yields("scf.yield", values, kinds)
        self.lines.append("}")
        self.finish(pools, kinds, name)
