"""Fields that our schema does not have are taken out of a query, and recorded: nothing is wrong in silence."""

from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLSchema,
    InlineFragmentNode,
    NamedTypeNode,
    NameNode,
    SelectionSetNode,
    TypeInfo,
    TypeInfoVisitor,
    VariableDefinitionNode,
    Visitor,
    visit,
)

# A write that nobody can do must not look as if it was done, nor a question as if it was answered.
ROOTS = ("Query", "Mutation")
KEPT = "__pruned"


def prune(schema: GraphQLSchema, document: DocumentNode) -> tuple[DocumentNode, tuple[str, ...]]:
    """The query without what the schema does not know, and the names of that: `Issue.issueType`, `… on Enterprise`."""
    types = TypeInfo(schema)
    pruning = _Pruning(schema, types, document)
    kept = visit(document, TypeInfoVisitor(types, pruning))
    return kept, tuple(dict.fromkeys(pruning.pruned))


class _Pruning(Visitor):
    def __init__(self, schema: GraphQLSchema, types: TypeInfo, document: DocumentNode) -> None:
        super().__init__()
        self.pruned: list[str] = []
        self._known = schema.type_map
        self._types = types
        self._lost = {
            one.name.value
            for one in document.definitions
            if isinstance(one, FragmentDefinitionNode) and one.type_condition.name.value not in self._known
        }

    def enter_field(self, node: FieldNode, *_: Any) -> Any:
        parent = self._types.get_parent_type()
        if parent is None or self._types.get_field_def() is not None or parent.name in ROOTS:
            return None
        self.pruned.append(f"{parent.name}.{node.name.value}")
        return self.REMOVE

    def enter_inline_fragment(self, node: InlineFragmentNode, *_: Any) -> Any:
        condition = node.type_condition
        if condition is None or condition.name.value in self._known:
            return None
        self.pruned.append(f"… on {condition.name.value}")
        return self.REMOVE

    def enter_fragment_spread(self, node: FragmentSpreadNode, *_: Any) -> Any:
        return self.REMOVE if node.name.value in self._lost else None

    def enter_fragment_definition(self, node: FragmentDefinitionNode, *_: Any) -> Any:
        if node.name.value not in self._lost:
            return None
        self.pruned.append(f"… on {node.type_condition.name.value}")
        return self.REMOVE

    def enter_variable_definition(self, node: VariableDefinitionNode, *_: Any) -> Any:
        named: Any = node.type
        while not isinstance(named, NamedTypeNode):
            named = named.type
        if named.name.value in self._known:
            return None
        self.pruned.append(f"${node.variable.name.value}: {named.name.value}")
        return self.REMOVE

    def leave_selection_set(self, node: SelectionSetNode, *_: Any) -> Any:
        if node.selections:
            return None
        # A selection of nothing is no query. Every type has this field, and clients that did not ask are not told.
        kept = FieldNode(alias=NameNode(value=KEPT), name=NameNode(value="__typename"), arguments=(), directives=())
        return SelectionSetNode(selections=(kept,))


def told(answered: Any) -> Any:
    """What was answered, without what only kept the query whole."""
    if isinstance(answered, dict):
        return {name: told(value) for name, value in answered.items() if name != KEPT}
    return [told(value) for value in answered] if isinstance(answered, list) else answered
