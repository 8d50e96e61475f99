/** One column as a field of the schema language. */
import type { FieldInput, FieldOptions } from '../../../../data/schema/language/definition.ts';
import type { FieldRules } from '../../../../data/schema/language/field-language.ts';
import { MAX_INDEXED_TEXT } from '../../../../data/schema/language/parse-options.ts';
import type { CatalogueColumn, CatalogueRelation } from './catalogue.ts';
import type { KeyChoice, Link } from './keys.ts';
import type { ServedType } from './types.ts';

/* Rules of the database (`CHECK (...)`) as rules of a field, where they are simple; the database keeps all of them in any case. */

interface SimpleRules {
  readonly validate: FieldRules;
  readonly enum?: readonly string[];
}

const number = String.raw`\(?'?(-?\d+(?:\.\d+)?)'?\)?(?:::[\w" ]+)?`;
const bounds: readonly (readonly [RegExp, keyof FieldRules])[] = [
  [new RegExp(`^ ?>= ${number}$`), 'min'],
  [new RegExp(`^ ?<= ${number}$`), 'max'],
  [new RegExp(`^ ?> ${number}$`), 'exclusiveMin'],
  [new RegExp(`^ ?< ${number}$`), 'exclusiveMax'],
];

/** Takes off brackets that enclose the whole. */
function bare(text: string): string {
  let inner = text.trim();
  while (inner.startsWith('(') && closing(inner) === inner.length - 1)
    inner = inner.slice(1, -1).trim();
  return inner;
}

function closing(text: string): number {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '(') depth++;
    else if (text[i] === ')' && --depth === 0) return i;
  }
  return -1;
}

/** The parts of a text between ANDs that stand in no brackets. */
function conjuncts(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '(') depth++;
    else if (text[i] === ')') depth--;
    else if (depth === 0 && text.startsWith(' AND ', i)) {
      parts.push(text.slice(start, i));
      start = i + 5;
    }
  }
  return [...parts, text.slice(start)].map(bare);
}

/** Text up to which a rule is looked at: longer ones are left to the database. */
const MAX_RULE = 10_000;

/**
 * What a check says about one value. `subjects`: how the value is called in it (`VALUE`, or the column).
 * `undefined` when some part of it is not simple: then none of it is taken over.
 */
export function simpleRules(check: string, subjects: readonly string[]): SimpleRules | undefined {
  if (check.length > MAX_RULE || !check.startsWith('CHECK (')) return undefined;
  const text = bare(check.slice('CHECK '.length).replace(/ NO INHERIT$| NOT VALID$/, ''));
  let rules: SimpleRules = { validate: {} };
  for (const part of conjuncts(text)) {
    const found = simpleRule(part, subjects);
    if (!found) return undefined;
    rules = { ...rules, ...found, validate: { ...rules.validate, ...found.validate } };
  }
  return rules;
}

function simpleRule(part: string, subjects: readonly string[]): SimpleRules | undefined {
  const subject = subjects.find((name) => part.startsWith(name) || part.startsWith(`(${name})::`));
  if (subject === undefined) return undefined;
  const rest = part
    .slice(part.startsWith('(') ? subject.length + 2 : subject.length)
    .replace(/^::[\w" ]+?(?= [<>=])/, '');
  for (const [pattern, rule] of bounds) {
    const value = pattern.exec(rest)?.[1];
    if (value !== undefined) return { validate: { [rule]: Number(value) } };
  }
  const values = listed(rest);
  return values && { validate: {}, enum: values };
}

/** `= ANY (ARRAY['a'::text, 'b'::text])`, or `= ANY ((ARRAY['a'::character varying, ...])::text[])`. */
function listed(rest: string): string[] | undefined {
  const list = /^ ?= ANY \(\(?ARRAY\[(.*?)\]\)?(?:::[\w" ]+\[\])?\)$/.exec(rest)?.[1];
  if (list === undefined) return undefined;
  const item = /'((?:[^']|'')*)'::[\w" ]+(?:, |$)/y;
  const values: string[] = [];
  while (item.lastIndex < list.length) {
    const found = item.exec(list);
    if (!found) return undefined;
    values.push((found[1] ?? '').replaceAll("''", "'"));
  }
  return values.length > 0 ? values : undefined;
}

interface FieldParts {
  readonly column: CatalogueColumn;
  readonly served: ServedType;
  readonly key: KeyChoice;
  readonly link: Link | undefined;
}

export function fieldOf(
  relation: CatalogueRelation,
  { column, served, key, link }: FieldParts,
): FieldInput {
  const required =
    column.notNull &&
    !column.hasDefault &&
    !column.generated &&
    !served.readOnly &&
    !isMadeByUs(column, served, { key, link });
  const description = column.comment ?? served.field.description;
  const common = { ...(required && { required }), ...(description && { description }) };
  if (link?.relation) {
    const { onDelete } = link.constraint;
    // What must have a value cannot be emptied; the database refuses it then.
    const rule = onDelete === 'setNull' && column.notNull ? 'restrict' : onDelete;
    return {
      type: 'Relation',
      model: link.relation.model,
      ...common,
      ...(rule !== 'restrict' && { onDelete: rule }),
    };
  }
  const field: FieldOptions = { ...served.field, ...common };
  const ruled = withRules(field, relation, column);
  return { ...ruled, ...identityOf(relation, { column, key, field: ruled, required }) };
}

/** A UUID that is the whole key and refers to nothing is made by the platform when nobody gives one. */
const isMadeByUs = (
  { name }: CatalogueColumn,
  { keyType }: ServedType,
  { key, link }: Pick<FieldParts, 'key' | 'link'>,
): boolean =>
  keyType === 'uuid' && key.columns.length === 1 && key.columns[0] === name && !link?.relation;

/** Adds the rules of the column and of its domain that the schema language can say. */
function withRules(
  field: FieldOptions,
  { constraints }: CatalogueRelation,
  { name, type }: CatalogueColumn,
): FieldOptions {
  const own = constraints.filter(
    ({ kind, columns }) => kind === 'check' && columns.length === 1 && columns[0] === name,
  );
  const quoted = /^[a-z_][a-z0-9_]*$/.test(name)
    ? [name, `"${name}"`]
    : [`"${name.replaceAll('"', '""')}"`];
  const rules = [
    ...type.checks.map((check) => simpleRules(check, ['VALUE'])),
    ...own.map(({ text }) => simpleRules(text ?? '', quoted)),
  ].filter((rule) => rule !== undefined);
  let result = field;
  for (const { validate, enum: values } of rules) {
    if (field.type === 'Number' && Object.keys(validate).length > 0)
      result = { ...result, validate: { ...result.validate, ...validate } };
    if (field.type === 'String' && values && !result.enum) result = { ...result, enum: values };
  }
  return result;
}

interface IdentityParts {
  readonly column: CatalogueColumn;
  readonly key: KeyChoice;
  readonly field: FieldOptions;
  readonly required: boolean;
}

/** `primaryKey` and `unique`, where they say no more than the table does: both imply a value, and a limit on text. */
function identityOf(
  relation: CatalogueRelation,
  { column, key, field, required }: IdentityParts,
): Pick<FieldOptions, 'primaryKey' | 'unique'> {
  const limited =
    field.type !== 'String' ||
    (field.validate?.maxLength ?? Number.POSITIVE_INFINITY) <= MAX_INDEXED_TEXT;
  const fits =
    typeof field.type === 'string' && ['String', 'Number', 'Date', 'ObjectId'].includes(field.type);
  if (!required || !limited || !fits) return {};
  if (key.columns.length === 1 && key.columns[0] === column.name) return { primaryKey: true };
  const isUnique = relation.indexes.some(
    ({ unique, partial, columns }) =>
      unique && !partial && columns.length === 1 && columns[0] === column.name,
  );
  return isUnique ? { unique: true } : {};
}
