/** The types of values that rules are about, and how they are written: `timestamp`, `list<string>`, `map<int>`. */
import type { Field } from '../schema/language/field.ts';

const scalarKinds = [
  'bool',
  'int',
  'double',
  'string',
  'timestamp',
  'duration',
  'ip',
  'cidr',
] as const;

const plainKinds = [...scalarKinds, 'json'] as const;

type PlainKind = (typeof plainKinds)[number];

export type RuleType =
  | { readonly kind: PlainKind | 'null' }
  | { readonly kind: 'list'; readonly items: RuleType }
  /** Keys are texts. */
  | { readonly kind: 'map'; readonly values: RuleType }
  /** Fixed members; `row` for the record itself, whose members are columns. */
  | {
      readonly kind: 'object';
      readonly name: string;
      readonly row: boolean;
      readonly members: ReadonlyMap<string, Member>;
      /** Names of fields that are there and of no type that rules have. */
      readonly uncompared?: ReadonlySet<string>;
    };

/** Whether SQL has an exact form of the values. */
export const isScalar = ({ kind }: RuleType): boolean =>
  (scalarKinds as readonly string[]).includes(kind);

export interface Member {
  readonly type: RuleType;
  /** The field of the schema, where it is one. */
  readonly field?: Field;
}

export const plain = (kind: PlainKind | 'null'): RuleType => ({ kind });
export const listOf = (items: RuleType): RuleType => ({ kind: 'list', items });

/** Names that other systems give to the same types. */
const synonyms: ReadonlyMap<string, PlainKind> = new Map([
  ['boolean', 'bool'],
  ['uint', 'int'],
  ['integer', 'int'],
  ['float', 'double'],
  ['number', 'double'],
  ['text', 'string'],
  ['ipaddress', 'ip'],
  ['any', 'json'],
]);

/** What a declaration may name. */
export const typeNames = `${plainKinds.join(', ')}, list<type> or map<type>`;

const MAX_NESTING = 3;

/** The type that a text names, if any. */
export function readType(text: string, depth = 0): RuleType | undefined {
  const name = text.trim();
  const kind = plainKinds.find((one) => one === name) ?? synonyms.get(name);
  if (kind) return plain(kind);
  const [, container, inner] = /^(list|map)\s*<(.*)>$/s.exec(name) ?? [];
  if (container === undefined || inner === undefined || depth === MAX_NESTING) return undefined;
  const of = readType(inner, depth + 1);
  if (!of) return undefined;
  return container === 'list' ? listOf(of) : { kind: 'map', values: of };
}

/** As it stands in messages. */
export function typeText(type: RuleType): string {
  switch (type.kind) {
    case 'list':
      return `list<${typeText(type.items)}>`;
    case 'map':
      return `map<${typeText(type.values)}>`;
    case 'object':
      return type.name;
    default:
      return type.kind;
  }
}

export function sameType(a: RuleType, b: RuleType): boolean {
  if (a.kind === 'list' && b.kind === 'list') return sameType(a.items, b.items);
  if (a.kind === 'map' && b.kind === 'map') return sameType(a.values, b.values);
  return a.kind === b.kind && a.kind !== 'object';
}

export const isNumber = ({ kind }: RuleType): boolean => kind === 'int' || kind === 'double';
