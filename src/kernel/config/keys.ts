/** The keys of a configuration as people read about them. */
import type { ConfigDefinition } from './config-definition.ts';

/** A leaf: what can be written, and what it means. */
export interface ConfigKey {
  /** Dotted; `<name>` stands for a name that operators choose, `[]` for an entry of a list. */
  readonly key: string;
  readonly type: string;
  readonly choices?: readonly unknown[];
  readonly default?: unknown;
  readonly description: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly sensitive?: true;
  /** `guarded`: for super admins only; `harmless`: for every admin. */
  readonly class: 'guarded' | 'harmless';
}

/** The parts of a JSON Schema that say something to people. */
interface Node {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Node[];
  readonly properties?: Readonly<Record<string, Node>>;
  readonly patternProperties?: Readonly<Record<string, Node>>;
  readonly items?: Node;
  readonly default?: unknown;
  readonly description?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly sensitive?: boolean;
  readonly harmless?: boolean;
}

/** Every leaf in the order in which it is declared; below free names and list entries too. */
export const configKeys = ({ schema }: Pick<ConfigDefinition, 'schema'>): readonly ConfigKey[] =>
  leavesOf(schema as Node, { prefix: '', harmless: false }).map(({ key, node, harmless }) => ({
    ...described(key, node),
    class: harmless ? 'harmless' : 'guarded',
  }));

interface Leaf {
  readonly key: string;
  readonly node: Node;
  readonly harmless: boolean;
}

interface Place {
  readonly prefix: string;
  /** By a mark further up. */
  readonly harmless: boolean;
}

function leavesOf(node: Node, place: Place): readonly Leaf[] {
  return Object.entries(node.properties ?? {}).flatMap(([name, child]): readonly Leaf[] => {
    const key = `${place.prefix}${name}`;
    const harmless = place.harmless || child.harmless === true;
    if (child.properties) return leavesOf(child, { prefix: `${key}.`, harmless });
    return [{ key, node: child, harmless }, ...entryLeaves(child, { prefix: key, harmless })];
  });
}

/** What an entry of a map or of a list is made of. */
const entryLeaves = (
  { patternProperties, items }: Node,
  { prefix, harmless }: Place,
): readonly Leaf[] => [
  ...Object.values(patternProperties ?? {}).flatMap((entry) =>
    leavesOf(entry, { prefix: `${prefix}.<name>.`, harmless }),
  ),
  ...(items ? leavesOf(items, { prefix: `${prefix}[].`, harmless }) : []),
];

function described(key: string, node: Node): Omit<ConfigKey, 'class'> {
  const choices = choicesOf(node);
  return {
    key,
    type:
      node.type ??
      (choices
        ? typeof choices[0]
        : [...new Set((node.anyOf ?? []).map(typeOf))].join(' or ') || 'any'),
    ...(choices && { choices }),
    // The default of a secret is that there is none.
    ...(node.default !== undefined && !node.sensitive && { default: node.default }),
    description: node.description ?? '',
    ...(node.minimum !== undefined && { minimum: node.minimum }),
    ...(node.maximum !== undefined && { maximum: node.maximum }),
    ...(node.sensitive && { sensitive: true }),
  };
}

/** One value stands for itself among types. */
const typeOf = ({ type, const: value }: Node): string =>
  value === undefined ? (type ?? 'any') : JSON.stringify(value);

function choicesOf({
  enum: values,
  const: only,
  anyOf = [],
}: Node): readonly unknown[] | undefined {
  if (values) return values;
  if (only !== undefined) return [only];
  const constants = anyOf.filter((one) => one.const !== undefined).map((one) => one.const);
  return constants.length > 0 && constants.length === anyOf.length ? constants : undefined;
}
