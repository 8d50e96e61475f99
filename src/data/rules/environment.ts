/** What a rule may speak of: the record, who asks, the time, and parameters with declared types. */
import type { CompiledSchema } from '../schema/compile/compiled.ts';
import { type Field, type NumberField, relationOf } from '../schema/language/field.ts';
import { listOf, type Member, plain, type RuleType } from './types.ts';

export interface RuleEnvironment {
  /** By the name that stands in rules. */
  readonly names: ReadonlyMap<string, RuleType>;
}

/** What every rule knows of who asks. For visitors nothing of it has a value. */
const callerType: RuleType = {
  kind: 'object',
  name: 'caller',
  row: false,
  members: new Map<string, Member>([
    ['id', { type: plain('string') }],
    ['type', { type: plain('string') }],
    ['roles', { type: listOf(plain('string')) }],
    ['teams', { type: listOf(plain('string')) }],
  ]),
};

export interface EnvironmentParts {
  readonly parameters?: ReadonlyMap<string, RuleType>;
  /** The fields of the record, where rules are about one. */
  readonly record?: ReadonlyMap<string, Field>;
  /** Whether rules know who asks; true unless set. */
  readonly caller?: boolean;
}

/** `now` is always there, unless a parameter has that name. */
export function ruleEnvironment({
  parameters = new Map(),
  record,
  caller = true,
}: EnvironmentParts): RuleEnvironment {
  const names = new Map<string, RuleType>([['now', plain('timestamp')]]);
  if (caller) names.set('caller', callerType);
  for (const [name, type] of parameters) names.set(name, type);
  if (record) {
    names.set('record', { kind: 'object', name: 'record', row: true, ...membersOf(record, false) });
  }
  return { names };
}

const automatic = { required: false, unique: false, hidden: false, indexed: false } as const;

/** What rules about records of a schema may speak of; columns of the platform's own included. */
export function recordEnvironment(
  schema: CompiledSchema,
  parameters: ReadonlyMap<string, RuleType> = new Map(),
): RuleEnvironment {
  const record = new Map<string, Field>([
    // Ids of other tables may have several parts, which are one text.
    ['_id', schema.mapping ? { kind: 'string', ...automatic } : { kind: 'objectId', ...automatic }],
    ...schema.tree.fields,
  ]);
  if (schema.modelOptions.timestamps) {
    record.set('createdAt', { kind: 'date', ...automatic });
    record.set('updatedAt', { kind: 'date', ...automatic });
  }
  return ruleEnvironment({ parameters, record });
}

/** Fields that have a type, and the names of those that have none. */
function membersOf(fields: ReadonlyMap<string, Field>, nested: boolean) {
  const members = new Map<string, Member>();
  const uncompared = new Set<string>();
  for (const [name, field] of fields) {
    const type = typeOfField(field, nested);
    if (type) members.set(name, { type, field });
    else uncompared.add(name);
  }
  return { members, uncompared };
}

/** Nothing for what rules cannot compare exactly: decimals, vectors, and large integers inside of objects. */
export function typeOfField(field: Field, nested = false): RuleType | undefined {
  switch (field.kind) {
    case 'string':
    case 'objectId':
    case 'relation':
      return plain('string');
    case 'number':
      return typeOfNumber(field, nested);
    case 'boolean':
      return plain('bool');
    case 'date':
      return plain('timestamp');
    case 'json':
      return plain('json');
    case 'vector':
      return undefined;
    case 'array': {
      const items = relationOf(field) ? plain('string') : typeOfField(field.items, true);
      return items && listOf(items);
    }
    case 'object':
      return { kind: 'object', name: 'object', row: false, ...membersOf(field.fields, true) };
  }
}

function typeOfNumber({ storage }: NumberField, nested: boolean): RuleType | undefined {
  if (storage === 'double precision') return plain('double');
  if (storage === 'integer') return plain('int');
  return storage === 'bigint' && !nested ? plain('int') : undefined;
}
