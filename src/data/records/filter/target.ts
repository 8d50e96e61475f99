/** What a dotted path of a condition leads to, found in the schemas: nothing of a path is ever SQL text. */

import { isStorable } from '../../../kernel/text.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { type Field, type RelationField, relationOf } from '../../schema/language/field.ts';
import { shortName } from '../../schema/language/names.ts';
import { isPlainKey, keyColumnName } from '../../schema/mapping/table-mapping.ts';

/** Relations followed in one path, as with populate (spec/database.md section 3). */
const MAX_HOPS = 3;
const MAX_PATH = 512;
const MAX_SEGMENTS = 16;

/** From a record to the ones that its relation names. */
export interface Hop {
  readonly source: CompiledSchema;
  /** The relation field of the source. */
  readonly name: string;
  readonly many: boolean;
  readonly target: CompiledSchema;
  /** The path so far, which names the hop within a filter. */
  readonly path: string;
}

/** A step inside a jsonb column. */
export type Step =
  /** A field of an object. `free`: the key comes from whoever asks, not from a schema. */
  | { readonly kind: 'key'; readonly key: string; readonly free: boolean }
  /** Each element of a list. */
  | { readonly kind: 'elements' };

export interface Target {
  readonly hops: readonly Hop[];
  /** Column of the last table. */
  readonly column: string;
  /** Field of that column. */
  readonly top: Field;
  readonly steps: readonly Step[];
  /** What stands at the end. */
  readonly field: Field;
}

export interface TargetAccess {
  schema(name: string): CompiledSchema | undefined;
  /** True for the platform itself; everybody else cannot even ask whether a hidden field is there. */
  readonly hidden: boolean;
}

/** Says in words why a path leads nowhere. */
export class PathError extends Error {}

const plain = { required: false, unique: false, hidden: false, indexed: false } as const;
const anyJson: Field = { kind: 'json', ...plain };
const idField = { kind: 'objectId', ...plain } as const satisfies Field;
const dateField = { kind: 'date', ...plain } as const satisfies Field;
const versionField: Field = { kind: 'number', storage: 'integer', integer: true, ...plain };

/** A field of the record itself, also an automatic one. */
function topField(schema: CompiledSchema, name: string): Field | undefined {
  if (name === '_id') return schema.mapping ? mappedId(schema) : idField;
  if (name === '__v') return schema.isPublicView ? undefined : versionField;
  if (name === 'createdAt' || name === 'updatedAt')
    return schema.modelOptions.timestamps
      ? { ...dateField, exact: schema.mapping !== undefined }
      : undefined;
  return schema.tree.fields.get(name);
}

/** Ids of several parts are compared as the texts that they are. */
function mappedId({ key }: CompiledSchema): Field {
  const [type] = key;
  return key.length === 1 && type !== undefined
    ? { ...idField, idType: type }
    : { kind: 'string', ...plain };
}

/** The column that an index helps with: an id of one part has one of its own. */
const columnOf = ({ mapping, key }: CompiledSchema, name: string): string =>
  mapping && name === '_id' && key.length === 1 && !isPlainKey(key) ? keyColumnName(0) : name;

/** Throws `PathError`. */
export function resolveTarget(schema: CompiledSchema, path: string, access: TargetAccess): Target {
  const names = path.length <= MAX_PATH ? path.split('.') : [];
  if (names.length === 0 || names.length > MAX_SEGMENTS)
    throw new PathError(`a path has at most ${MAX_SEGMENTS} names`);
  const hops: Hop[] = [];
  let source = schema;
  for (const [at, name] of names.entries()) {
    const field = topField(source, name);
    if (!isVisible(field, access)) throw unknown(source.name, names, at);
    const rest = names.slice(at + 1);
    const relation = relationOf(field);
    if (!relation || endsHere(rest)) {
      return {
        hops,
        column: columnOf(source, name),
        top: field,
        ...insideOf(field, relation ? [] : rest, { names, access, source }),
      };
    }
    const target = followed(relation.field, hops.length, access);
    hops.push({
      source,
      name,
      many: relation.many,
      target,
      path: names.slice(0, at + 1).join('.'),
    });
    source = target;
  }
  throw unknown(source.name, names, names.length - 1);
}

function followed({ model }: RelationField, depth: number, access: TargetAccess): CompiledSchema {
  if (depth === MAX_HOPS)
    throw new PathError(`relations are followed at most ${MAX_HOPS} levels deep`);
  const target = access.schema(model);
  if (!target) throw new PathError(`${model} does not exist yet`);
  return target;
}

/** The id of a related record is what the relation itself holds. */
const endsHere = (rest: readonly string[]): boolean =>
  rest.length === 0 || (rest.length === 1 && rest[0] === '_id');

const isVisible = (field: Field | undefined, { hidden }: TargetAccess): field is Field =>
  field !== undefined && (hidden || !field.hidden);

interface Walk {
  readonly names: readonly string[];
  readonly access: TargetAccess;
  readonly source: CompiledSchema;
}

/** The way from a column to a value inside it. */
function insideOf(
  top: Field,
  rest: readonly string[],
  { names, access, source }: Walk,
): Pick<Target, 'steps' | 'field'> {
  const steps: Step[] = [];
  let field = top;
  for (const [index, name] of rest.entries()) {
    while (field.kind === 'array') {
      steps.push({ kind: 'elements' });
      field = field.items;
    }
    if (field.kind === 'json') {
      steps.push({ kind: 'key', key: freeKey(name), free: true });
      continue;
    }
    const child: Field | undefined = field.kind === 'object' ? field.fields.get(name) : undefined;
    if (!isVisible(child, access))
      throw unknown(source.name, names, names.length - rest.length + index);
    steps.push({ kind: 'key', key: name, free: false });
    field = child;
  }
  return { steps, field: steps.length > 0 && field.kind === 'json' ? anyJson : field };
}

function freeKey(name: string): string {
  if (name === '' || !isStorable(name))
    throw new PathError('a name in the path is empty or not text');
  return name;
}

const unknown = (schema: string, names: readonly string[], at: number): PathError =>
  new PathError(`"${shortName(names.slice(0, at + 1).join('.'))}" is not a field of ${schema}`);
