/** The keys of a configuration as people read about them. */
import type { ConfigDefinition } from './definition.ts';

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
  readonly superAdminOnly?: true;
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
}

/** Every leaf in the order in which it is declared; below free names and list entries too. */
export function configKeys({ schema, superAdminOnly = [] }: ConfigDefinition): readonly ConfigKey[] {
  const guarded = (key: string): boolean => superAdminOnly.some((prefix) => key === prefix || key.startsWith(`${prefix}.`));
  return leavesOf(schema as Node, '').map(({ key, node }) => ({ ...described(key, node), ...(guarded(key) && { superAdminOnly: true }) }));
}

interface Leaf {
  readonly key: string;
  readonly node: Node;
}

function leavesOf(node: Node, prefix: string): readonly Leaf[] {
  return Object.entries(node.properties ?? {}).flatMap(([name, child]): readonly Leaf[] => {
    const key = `${prefix}${name}`;
    if (child.properties) return leavesOf(child, `${key}.`);
    return [{ key, node: child }, ...entryLeaves(child, key)];
  });
}

/** What an entry of a map or of a list is made of. */
const entryLeaves = ({ patternProperties, items }: Node, key: string): readonly Leaf[] => [
  ...Object.values(patternProperties ?? {}).flatMap((entry) => leavesOf(entry, `${key}.<name>.`)),
  ...(items ? leavesOf(items, `${key}[].`) : []),
];

function described(key: string, node: Node): ConfigKey {
  const choices = choicesOf(node);
  return {
    key,
    type: node.type ?? (choices ? typeof choices[0] : [...new Set((node.anyOf ?? []).map(typeOf))].join(' or ') || 'any'),
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
const typeOf = ({ type, const: value }: Node): string => (value === undefined ? (type ?? 'any') : JSON.stringify(value));

function choicesOf({ enum: values, const: only, anyOf = [] }: Node): readonly unknown[] | undefined {
  if (values) return values;
  if (only !== undefined) return [only];
  const constants = anyOf.filter((one) => one.const !== undefined).map((one) => one.const);
  return constants.length > 0 && constants.length === anyOf.length ? constants : undefined;
}
