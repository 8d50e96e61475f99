/** The JSON Schemas of records on the wire, for operations and their documents. */
import Type, { type TObject, type TSchema } from 'typebox';
import {
  type Field,
  type NumberField,
  type ObjectField,
  type RelationField,
  readRuleOf,
  type StringField,
  writeRuleOf,
} from '../language/field.ts';
import type { KeyType, RecordKey } from '../language/record-key.ts';
import type { TableMapping } from '../mapping/table-mapping.ts';

export interface RecordShapes {
  /** Body of a create or a replacement. */
  readonly create: TObject;
  /** Body of a PATCH: nothing is required, optional fields may be null. */
  readonly update: TObject;
  /** A record in an answer; relations are ids, or records when populated. */
  readonly record: TObject;
}

type Purpose = 'create' | 'update' | 'record';

/** `recordId` marks ids that are no UUIDs for protocols that have a type for ids. */
const idShape = (type: KeyType | undefined, description?: string): TSchema => {
  const about = description === undefined ? {} : { description };
  return type === undefined || type === 'uuid'
    ? Type.String({ format: 'uuid', ...about })
    : Type.String({ recordId: true, ...about });
};
const instant = (): TSchema => Type.String({ format: 'date-time' });

/** An operator that has no meaning in a body is refused: dropped like other unknown keys, it would be a change that never happens. */
export const noOperators = { closed: 'operators' } as const;

/**
 * `name` marks the shape of records, so that protocols with named types (GraphQL) know what it describes. Each is made
 * when it is first asked for: they are most of what a schema takes to compile and to keep, and a plan of thousands of
 * schemas asks for none.
 */
export function recordShapes(name: string, tree: ObjectField, options: ShapeOptions): RecordShapes {
  const made: { -readonly [P in Purpose]?: TObject } = {};
  const shapes: RecordShapes = {
    get create() {
      made.create ??= writtenShape(tree, 'create', options, {
        component: `${name}Create`,
        lesser: shapes.update,
      });
      return made.create;
    },
    get update() {
      made.update ??= writtenShape(tree, 'update', options, { component: `${name}Update` });
      return made.update;
    },
    get record() {
      made.record ??= readShape(name, tree, options);
      return made.record;
    },
  };
  return shapes;
}

const writtenShape = (
  tree: ObjectField,
  purpose: Purpose,
  { mapping }: ShapeOptions,
  facts: { readonly component: string; readonly lesser?: TObject },
): TObject =>
  Type.Object(properties(writtenTree(tree, mapping), purpose), { ...noOperators, ...facts });

const readShape = (name: string, tree: ObjectField, { key, timestamps }: ShapeOptions): TObject =>
  Type.Object(
    {
      _id: recordId(key),
      ...properties(tree, 'record', true),
      ...(timestamps && { createdAt: instant(), updatedAt: instant() }),
      __v: Type.Integer({
        minimum: 0,
        description: 'Counts up with each change; the number in the ETag',
      }),
    },
    { record: name },
  );

interface ShapeOptions {
  readonly timestamps: boolean;
  readonly key: RecordKey;
  readonly mapping: TableMapping | undefined;
}

function recordId(key: RecordKey): TSchema {
  if (key.length === 1) return idShape(key[0]);
  return key.length === 0
    ? Type.Optional(Type.Null({ description: 'Nothing tells these records apart' }))
    : idShape('text');
}

/** Without the fields that a table of others fills in always by itself. */
function writtenTree(tree: ObjectField, mapping: TableMapping | undefined): ObjectField {
  if (!mapping) return tree;
  return {
    ...tree,
    fields: new Map(
      [...tree.fields].filter(([name]) => mapping.columns[name]?.filled !== 'always'),
    ),
  };
}

function properties(tree: ObjectField, purpose: Purpose, columns = false): Record<string, TSchema> {
  const shapes: Record<string, TSchema> = {};
  for (const [name, field] of tree.fields) {
    if (purpose === 'record' && (field.hidden || readRuleOf(field).kind === 'admin')) continue;
    shapes[name] = property(field, purpose, columns);
  }
  return shapes;
}

function property(field: Field, purpose: Purpose, column: boolean): TSchema {
  // It comes as far as the record engine, which refuses it by name.
  if (purpose !== 'record' && writeRuleOf(field).kind === 'admin')
    return Type.Optional(Type.Unknown({ readOnly: true, ...described(field) }));
  const shape =
    purpose === 'record' ? shapeOf(field, purpose) : told(field, shapeOf(field, purpose));
  if (field.required && purpose === 'create' && field.default === undefined) return shape;
  return Type.Optional(Type.Union([shape, Type.Null()], facts(field, purpose, column)));
}

/**
 * Columns stand in every answer, unless a rule keeps the field from some callers, and required ones are never null
 * there; inside nested objects a key may be missing. Input lets null through to the record validator, which says
 * where it may not stand: a surface would take it for "not given".
 */
function facts(
  field: Field,
  purpose: Purpose,
  column: boolean,
): { answered?: boolean; notNull?: boolean } {
  if (purpose !== 'record') return { notNull: field.required };
  const answered = column && readRuleOf(field).kind === 'public';
  return { answered, notNull: answered && field.required };
}

/** With the sentence that the field has for whatever is wrong with its value. */
const told = ({ message }: Field, shape: TSchema): TSchema =>
  message === undefined ? shape : { ...shape, sentence: message };

const described = (field: Field): { description?: string } =>
  field.description === undefined ? {} : { description: field.description };

function shapeOf(field: Field, purpose: Purpose): TSchema {
  switch (field.kind) {
    case 'string':
      return stringShape(field, purpose);
    case 'number':
      return numberShape(field, purpose);
    case 'boolean':
      return Type.Boolean(described(field));
    case 'date':
      return purpose === 'record'
        ? Type.String({ format: 'date-time', ...described(field) })
        : Type.String({
            description: 'ISO 8601 instant, or a date',
            instant: true,
            ...described(field),
          });
    case 'objectId':
      return idShape(field.idType, field.description);
    case 'relation':
      return relationShape(field, purpose);
    case 'json':
      return Type.Unknown(described(field));
    case 'vector':
      return Type.Array(Type.Number(), {
        minItems: field.dimensions,
        maxItems: field.dimensions,
        ...described(field),
      });
    case 'array':
      return Type.Array(shapeOf(field.items, purpose), {
        ...(purpose !== 'record' && field.minItems !== undefined && { minItems: field.minItems }),
        ...(purpose !== 'record' && field.maxItems !== undefined && { maxItems: field.maxItems }),
        ...described(field),
      });
    case 'object':
      return Type.Object(properties(field, purpose), described(field));
  }
}

function relationShape(
  { model, idType, description: said }: RelationField,
  purpose: Purpose,
): TSchema {
  const description = said ?? `Id of its ${model}`;
  if (purpose !== 'record') return idShape(idType, description);
  return Type.Union(
    [
      idShape(idType, description),
      Type.Object({ _id: idShape(idType) }, { description: `The ${model}, when populated` }),
    ],
    { relation: model },
  );
}

/** Patterns are left out: they are matched by our own linear-time matcher, never by a regular expression engine. */
function stringShape(field: StringField, purpose: Purpose): TSchema {
  if (purpose === 'record' && !field.enum) return Type.String(described(field));
  const hint = field.pattern
    ? { description: `${field.description ?? ''} Must match ${field.pattern.source}`.trim() }
    : described(field);
  if (field.enum) return Type.Unsafe<string>({ type: 'string', enum: [...field.enum], ...hint });
  return Type.String({
    ...(field.minLength !== undefined && { minLength: field.minLength }),
    ...(field.maxLength !== undefined && { maxLength: field.maxLength }),
    ...hint,
  });
}

function numberShape(field: NumberField, purpose: Purpose): TSchema {
  const wide = field.storage === 'bigint' || field.storage === 'numeric';
  const rules =
    purpose === 'record'
      ? {}
      : {
          ...(field.min !== undefined && { minimum: field.min }),
          ...(field.max !== undefined && { maximum: field.max }),
          ...(field.exclusiveMin !== undefined && { exclusiveMinimum: field.exclusiveMin }),
          ...(field.exclusiveMax !== undefined && { exclusiveMaximum: field.exclusiveMax }),
        };
  if (field.enum)
    return Type.Unsafe<number>({ type: 'number', enum: [...field.enum], ...described(field) });
  const number = field.integer
    ? Type.Integer({ ...rules, ...described(field), wide: field.storage !== 'integer' })
    : Type.Number({ ...rules, ...described(field) });
  return wide
    ? Type.Union([
        number,
        Type.String({ description: 'Digits, where a JSON number would lose some' }),
      ])
    : number;
}
