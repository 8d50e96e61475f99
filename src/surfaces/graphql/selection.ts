/**
 * What a field's selection means for its operation: which relations to populate, so that one statement
 * serves the records and everything that is selected from them (no query per record).
 */
import {
  type FieldNode,
  type FragmentDefinitionNode,
  GraphQLIncludeDirective,
  type GraphQLObjectType,
  type GraphQLOutputType,
  GraphQLSkipDirective,
  getDirectiveValues,
  getNamedType,
  isObjectType,
  Kind,
  type SelectionNode,
  type SelectionSetNode,
} from 'graphql';
import type { SelectedFields } from '../../kernel/operations/operation-input.ts';
import { isRecordType, type TypeBuilder } from './types.ts';

export interface Selection {
  /** Paths for the operation's `populate`, dotted for depth. */
  readonly populate: readonly string[];
  /** Where in the answer relations are selected. */
  readonly links: LinkTree;
  readonly requested: SelectedFields;
  /** Every field is answered under its own name: JSON with exactly these is the answer. */
  readonly isPlain: boolean;
}

export type LinkTree = ReadonlyMap<
  string,
  { readonly relation: boolean; readonly children: LinkTree }
>;
interface GrowingNames extends Map<string, GrowingNames> {
  typeName?: string;
}
type GrowingTree = Map<string, { relation: boolean; readonly children: GrowingTree }>;

export interface SelectionSource {
  readonly fieldNodes: readonly FieldNode[];
  readonly returnType: GraphQLOutputType;
  readonly fragments: Readonly<Record<string, FragmentDefinitionNode>>;
  readonly variableValues: Readonly<Record<string, unknown>>;
}

export function readSelection(source: SelectionSource, types: TypeBuilder): Selection {
  const reader = createReader(source, types);
  const tree: GrowingTree = new Map();
  reader.read(source.fieldNodes, source.returnType, { prefix: '', tree });
  return {
    populate: longest(reader.paths),
    links: withRelations(tree),
    requested: reader.requested(source.fieldNodes, source.returnType),
    isPlain: isPlain({ ...reader, types }, source.fieldNodes, source.returnType),
  };
}

/** Where a selection stands: below which relations, and in which part of the tree. */
interface Place {
  readonly prefix: string;
  readonly tree: GrowingTree;
}

function createReader({ fragments, variableValues }: SelectionSource, types: TypeBuilder) {
  const paths = new Set<string>();

  const chosen = (set: SelectionSetNode | undefined): readonly FieldNode[] =>
    (set?.selections ?? []).filter((node) => isIncluded(node, variableValues)).flatMap(fieldsOf);

  const fieldsOf = (node: SelectionNode): readonly FieldNode[] => {
    if (node.kind === Kind.FIELD) return [node];
    return chosen(
      node.kind === Kind.INLINE_FRAGMENT
        ? node.selectionSet
        : fragments[node.name.value]?.selectionSet,
    );
  };

  const read = (nodes: readonly FieldNode[], type: GraphQLOutputType, place: Place): void => {
    const object = getNamedType(type);
    if (!isObjectType(object)) return;
    for (const node of nodes.flatMap(({ selectionSet }) => chosen(selectionSet))) {
      const definition = node.selectionSet ? object.getFields()[node.name.value] : undefined;
      if (definition)
        read(
          [node],
          definition.type,
          enter(node, types.relationsOf(object).get(node.name.value), place),
        );
    }
  };

  /** `related`: the name of the relation on the wire, if the field is one. */
  const enter = (node: FieldNode, related: string | undefined, { prefix, tree }: Place): Place => {
    const name = related ?? node.name.value;
    const branch = tree.get(name) ?? { relation: related !== undefined, children: new Map() };
    tree.set(name, branch);
    if (related === undefined) return { prefix, tree: branch.children };
    const path = prefix === '' ? related : `${prefix}.${related}`;
    if (chosen(node.selectionSet).some(needsRecord)) paths.add(path);
    return { prefix: path, tree: branch.children };
  };

  /** The names on the wire of what is selected, at every depth. */
  const requested = (nodes: readonly FieldNode[], type: GraphQLOutputType): SelectedFields => {
    const members: GrowingNames = new Map();
    addNames(nodes, type, members);
    return members;
  };

  const addNames = (
    nodes: readonly FieldNode[],
    type: GraphQLOutputType,
    names: GrowingNames,
  ): void => {
    const object = getNamedType(type);
    if (!isObjectType(object)) return;
    const relations = types.relationsOf(object);
    names.typeName = object.name;
    for (const node of nodes.flatMap(({ selectionSet }) => chosen(selectionSet))) {
      const { value } = node.name;
      const name = relations.get(value) ?? value;
      const inner = names.get(name) ?? new Map();
      names.set(name, inner);
      const definition = node.selectionSet ? object.getFields()[value] : undefined;
      if (definition) addNames([node], definition.type, inner);
    }
  };

  return { chosen, paths, read, requested };
}

interface PlainTest {
  readonly types: TypeBuilder;
  chosen(set: SelectionSetNode | undefined): readonly FieldNode[];
}

/** Parts of nested objects are picked by the executor; relations are rendered as they are requested. */
function isPlain(test: PlainTest, nodes: readonly FieldNode[], type: GraphQLOutputType): boolean {
  const object = getNamedType(type);
  if (!isObjectType(object)) return true;
  return nodes
    .flatMap(({ selectionSet }) => test.chosen(selectionSet))
    .every((node) => isPlainField(test, node, object));
}

function isPlainField(test: PlainTest, node: FieldNode, object: GraphQLObjectType): boolean {
  const { types } = test;
  const { value } = node.name;
  if (node.alias) return false;
  if (value === '__typename') return true;
  const definition = object.getFields()[value];
  if (!definition || definition.resolve) return false;
  if (!node.selectionSet) return true;
  if (isRecordType(object) && types.relationsOf(object).get(value) !== value) return false;
  const inner = getNamedType(definition.type);
  return isObjectType(inner) && isRecordType(inner) && isPlain(test, [node], inner);
}

/** The id is there without its record. */
const needsRecord = ({ name }: FieldNode): boolean =>
  name.value !== '_id' && name.value !== '__typename';

function isIncluded(node: SelectionNode, variables: Readonly<Record<string, unknown>>): boolean {
  if (!node.directives?.length) return true;
  if (getDirectiveValues(GraphQLSkipDirective, node, variables)?.if === true) return false;
  return getDirectiveValues(GraphQLIncludeDirective, node, variables)?.if !== false;
}

/** `author` goes without saying where `author.company` is asked for. */
const longest = (paths: ReadonlySet<string>): readonly string[] =>
  [...paths].filter((path) => ![...paths].some((other) => other.startsWith(`${path}.`)));

/** Branches without a relation have nothing to look for. */
function withRelations(tree: GrowingTree): LinkTree {
  const kept = [...tree]
    .map(
      ([name, { relation, children }]) =>
        [name, { relation, children: withRelations(children) }] as const,
    )
    .filter(([, { relation, children }]) => relation || children.size > 0);
  return new Map(kept);
}

/** Relations that stayed ids (unreadable, or only the id is requested) become objects with that id. Changes `value`. */
export function standIds(value: unknown, links: LinkTree): void {
  if (Array.isArray(value)) {
    for (const item of value) standIds(item, links);
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  const record = value as Record<string, unknown>;
  for (const [name, { relation, children }] of links) {
    if (!Object.hasOwn(record, name)) continue;
    if (relation) record[name] = asRecord(record[name]);
    if (children.size > 0) standIds(record[name], children);
  }
}

function asRecord(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asRecord);
  return typeof value === 'string' ? { _id: value } : value;
}
