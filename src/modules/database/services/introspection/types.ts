/** From a type of PostgreSQL to a field of the schema language, and how the column is read and written. */
import type { FieldInput, FieldOptions } from '../../../../data/schema/language/definition.ts';
import type { KeyType } from '../../../../data/schema/language/record-key.ts';
import type { ColumnForm } from '../../../../data/schema/mapping/table-mapping.ts';
import type { CatalogueType } from './catalogue.ts';

/** A column that can be served. */
export interface ServedType {
  readonly field: FieldOptions;
  readonly form: ColumnForm;
  /** Absent where values of the type cannot be part of an id. */
  readonly keyType?: KeyType;
  /** It is shown, but the platform cannot write it. */
  readonly readOnly?: true;
}

type Plain = Omit<ServedType, 'field'> & { readonly field: FieldOptions };

const number = (sqlType: string, keyType?: KeyType): Plain => ({
  field: { type: 'Number', sqlType },
  form: 'plain',
  ...(keyType && { keyType }),
});
const date = (keyType: KeyType): Plain => ({ field: { type: 'Date' }, form: 'plain', keyType });
const asText: Plain = { field: { type: 'String' }, form: 'text' };

/** Types of `pg_catalog`. What is compared as text although it is stored otherwise has the form `text`. */
const known: ReadonlyMap<string, Plain> = new Map<string, Plain>([
  ['text', { field: { type: 'String' }, form: 'plain', keyType: 'text' }],
  ['varchar', { field: { type: 'String' }, form: 'plain', keyType: 'text' }],
  ['name', { ...asText, keyType: 'text' }],
  ['bpchar', { ...asText, keyType: 'bpchar' }],
  [
    'int2',
    {
      field: { type: 'Number', sqlType: 'INT', validate: { min: -32_768, max: 32_767 } },
      form: 'plain',
      keyType: 'bigint',
    },
  ],
  ['int4', number('INT', 'bigint')],
  ['int8', number('BIGINT', 'bigint')],
  ['numeric', number('DECIMAL', 'numeric')],
  ['money', { field: { type: 'Number', sqlType: 'DECIMAL' }, form: 'decimal' }],
  ['float4', { field: { type: 'Number' }, form: 'double' }],
  ['float8', { field: { type: 'Number' }, form: 'plain' }],
  ['bool', { field: { type: 'Boolean' }, form: 'plain', keyType: 'boolean' }],
  ['uuid', { field: { type: 'ObjectId' }, form: 'plain', keyType: 'uuid' }],
  ['date', date('date')],
  ['timestamp', date('timestamp')],
  ['timestamptz', date('timestamptz')],
  ['time', asText],
  ['timetz', asText],
  ['interval', asText],
  ['inet', asText],
  ['cidr', asText],
  ['macaddr', asText],
  ['macaddr8', asText],
  ['bit', asText],
  ['varbit', asText],
  ['xml', asText],
  ['jsonb', { field: { type: 'JSON' }, form: 'plain' }],
  ['json', { field: { type: 'JSON' }, form: 'jsonb' }],
  ['bytea', { field: { type: 'String', description: 'Bytes, as base64' }, form: 'base64' }],
]);

/** A JSON number would lose digits of some of these, so their lists are lists of texts. */
const wide: ReadonlySet<string> = new Set(['int8', 'numeric']);

/** Elements of lists, as they stand in JSON. */
const elements: ReadonlyMap<string, FieldInput> = new Map<string, FieldInput>([
  ['text', 'String'],
  ['varchar', 'String'],
  ['bpchar', 'String'],
  ['int2', { type: 'Number', sqlType: 'INT' }],
  ['int4', { type: 'Number', sqlType: 'INT' }],
  ['int8', 'String'],
  ['numeric', 'String'],
  ['float4', 'Number'],
  ['float8', 'Number'],
  ['bool', 'Boolean'],
  ['uuid', 'ObjectId'],
]);

/** The schema language has at most this many values in an enum. */
const MAX_LABELS = 1_000;

/** How a column of this type is served, or why it is not. */
export function servedType(type: CatalogueType): ServedType | { readonly reason: string } {
  const { base, labels, element } = type;
  if (element) return listType(type);
  if (labels) {
    if (labels.length === 0 || labels.length > MAX_LABELS) return { ...asText, keyType: 'text' };
    return { field: { type: 'String', enum: labels }, form: 'text', keyType: 'text' };
  }
  const plain =
    base.schema === 'pg_catalog'
      ? known.get(base.name)
      : base.name === 'citext'
        ? citext
        : undefined;
  if (!plain) return { reason: reasonFor(type) };
  return { ...plain, field: { ...plain.field, ...lengthRule(type) } };
}

const citext: Plain = { ...asText, keyType: 'text' };

/** `character varying(40)` takes 40 characters at most. */
function lengthRule({ base }: CatalogueType): Pick<FieldOptions, 'validate'> {
  const limited = base.name === 'varchar' || base.name === 'bpchar';
  // PostgreSQL adds four to the length that was declared.
  if (!limited || base.modifier < 5) return {};
  return { validate: { maxLength: base.modifier - 4 } };
}

function listType({
  element,
  dimensions,
  text,
}: CatalogueType): ServedType | { readonly reason: string } {
  if (!element) return { reason: `${text} is not a list` };
  const items: FieldInput | undefined = element.labels
    ? element.labels.length > 0 && element.labels.length <= MAX_LABELS
      ? { type: 'String', enum: element.labels }
      : 'String'
    : element.schema === 'pg_catalog'
      ? elements.get(element.name)
      : undefined;
  if (items === undefined)
    return { reason: `lists of ${element.name} have no counterpart in the schema language` };
  const form = element.schema === 'pg_catalog' && wide.has(element.name) ? 'texts' : 'array';
  if (dimensions > 1)
    return {
      field: { type: 'JSON', description: 'A list of lists; it can only be read' },
      form,
      readOnly: true,
    };
  return { field: { type: [items] }, form };
}

const groups: ReadonlyMap<string, string> = new Map([
  ['R', 'ranges have no counterpart in the schema language'],
  ['G', 'geometric types have no counterpart in the schema language'],
  ['C', 'composite types have no counterpart in the schema language'],
]);

function reasonFor({ base, text }: CatalogueType): string {
  if (base.name === 'tsvector' || base.name === 'tsquery')
    return 'search data is kept by the database for its own use';
  return groups.get(base.category) ?? `the type ${text} has no counterpart in the schema language`;
}
