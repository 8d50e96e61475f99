/** Rules of the 0.16 line: whoever holds a role may do an action, where conditions hold (spec/authorization.md 2.2). */
import type { Caller } from '../../../kernel/caller.ts';
import type { Database, Transaction } from '../../../kernel/database/database.ts';
import { invalid, type Problem } from '../../../kernel/errors.ts';
import type { Events } from '../../../kernel/events/events.ts';
import { newId } from '../../../kernel/ids.ts';
import { cutText } from '../../../kernel/text.ts';
import { authorizationErrors } from '../errors.ts';
import { invalidDefinition } from '../model/definition.ts';
import {
  deleteRule,
  hasTwin,
  insertRule,
  listRules,
  type RuleFilter,
  type RuleRow,
  roleByName,
  ruleById,
  updateRule,
} from '../role-queries.ts';

/*
 * Conditions of 0.16 rules: a flat map from a field to what it must be. A key is
 * a field of the record, or `caller.<field>` for the user who asks. A value is a
 * literal, or an object of operators (eq, ne, in, nin, gt, lt, exists, also
 * written with a `$`) whose operands are literals, `"$user.<field>"`,
 * `{"caller": field}` or `{"record": field}`. Everything must hold; what is not
 * there makes a comparison false.
 */

export type RuleConditions = Readonly<Record<string, unknown>>;

/** What conditions look at; `undefined` where there is no record or user. */
export interface RuleFacts {
  readonly record: Readonly<Record<string, unknown>> | undefined;
  readonly caller: Readonly<Record<string, unknown>> | undefined;
}

const maxConditions = 32;
const maxItems = 100;
const fieldName = /^(caller\.)?[A-Za-z_]\w{0,63}$/;
const operators: ReadonlySet<string> = new Set(['eq', 'ne', 'in', 'nin', 'gt', 'lt', 'exists']);

/** Operators may be written as in document databases. */
const plainName = (operator: string): string => operator.replace(/^\$/, '');

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isScalar = (value: unknown): boolean =>
  value === null || ['string', 'number', 'boolean'].includes(typeof value);

/** Faults of conditions as they are written, with dotted places. */
export function conditionFaults(conditions: RuleConditions): readonly Problem[] {
  const entries = Object.entries(conditions);
  if (entries.length > maxConditions)
    return [fault('conditions', 'maxItems', `at most ${maxConditions} conditions`)];
  return entries.flatMap(([key, value]) => {
    const path = `conditions.${cutText(key, 80)}`;
    if (!fieldName.test(key))
      return [fault(path, 'name', 'must be a field of the record, or caller.<field>')];
    if (isScalar(value)) return [];
    if (!isPlain(value))
      return [fault(path, 'type', 'must be a literal or an object of operators')];
    return Object.entries(value).flatMap(([operator, operand]) =>
      operatorFaults(`${path}.${cutText(operator, 32)}`, operator, operand),
    );
  });
}

const fault = (path: string, rule: string, message: string): Problem => ({ path, rule, message });

function operatorFaults(path: string, written: string, operand: unknown): readonly Problem[] {
  const operator = plainName(written);
  if (!operators.has(operator))
    return [fault(path, 'operator', `unknown operator; use one of ${[...operators].join(', ')}`)];
  if (operator === 'exists')
    return typeof operand === 'boolean' ? [] : [fault(path, 'type', 'must be true or false')];
  if (reference(operand)) return [];
  if (operator === 'in' || operator === 'nin') {
    const isList = Array.isArray(operand) && operand.length <= maxItems && operand.every(isScalar);
    return isList ? [] : [fault(path, 'type', `must be a list of at most ${maxItems} literals`)];
  }
  return isScalar(operand)
    ? []
    : [fault(path, 'type', 'must be a literal, {"caller": field} or {"record": field}')];
}

interface Place {
  readonly of: 'caller' | 'record';
  readonly field: string;
}

const userField = /^\$user\.([A-Za-z_]\w{0,63})$/;

/** The place that `"$user.field"`, `{caller: field}` or `{record: field}` names. */
function reference(operand: unknown): Place | undefined {
  if (typeof operand === 'string') {
    const field = userField.exec(operand)?.[1];
    return field === undefined ? undefined : { of: 'caller', field };
  }
  if (!isPlain(operand)) return undefined;
  const [[of, field] = [], ...rest] = Object.entries(operand);
  if (rest.length > 0 || typeof field !== 'string' || (of !== 'caller' && of !== 'record'))
    return undefined;
  return fieldName.test(field) && !field.startsWith('caller.') ? { of, field } : undefined;
}

/** Whether the conditions are about something beyond the mere question. */
export const needsFacts = (conditions: RuleConditions): boolean =>
  Object.keys(conditions).length > 0;

/** True when all conditions hold. */
export const conditionsHold = (conditions: RuleConditions, facts: RuleFacts): boolean =>
  Object.entries(conditions).every(([key, wanted]) => {
    const value = factOf(key, facts);
    if (!isPlain(wanted)) return holds('eq', value, wanted, facts);
    return Object.entries(wanted).every(([operator, operand]) =>
      holds(plainName(operator), value, operand, facts),
    );
  });

function factOf(key: string, { record, caller }: RuleFacts): unknown {
  const source = key.startsWith('caller.') ? caller : record;
  const name = key.replace(/^caller\./, '');
  return source && Object.hasOwn(source, name) ? source[name] : undefined;
}

function holds(operator: string, value: unknown, operand: unknown, facts: RuleFacts): boolean {
  const isThere = value !== undefined && value !== null;
  if (operator === 'exists') return isThere === operand;
  const place = reference(operand);
  const other = place
    ? factOf(place.of === 'caller' ? `caller.${place.field}` : place.field, facts)
    : operand;
  if (value === undefined || other === undefined) return false;
  switch (operator) {
    case 'eq':
      return value === other;
    case 'ne':
      return value !== other;
    case 'in':
      return Array.isArray(other) && other.includes(value);
    case 'nin':
      return Array.isArray(other) && !other.includes(value);
    case 'gt':
    case 'lt':
      return ordered(operator, value, other);
    default:
      return false;
  }
}

function ordered(operator: 'gt' | 'lt', value: unknown, other: unknown): boolean {
  if (typeof value === 'number' && typeof other === 'number')
    return operator === 'gt' ? value > other : value < other;
  if (typeof value === 'string' && typeof other === 'string')
    return operator === 'gt' ? value > other : value < other;
  return false;
}

export interface RuleInput {
  readonly resource: string;
  readonly action: string;
  /** Name of a role. */
  readonly role: string;
  readonly conditions?: Readonly<Record<string, unknown>> | undefined;
}

/** All throw 404 for an unknown rule, 400 for an unknown role and for conditions that are not sound, and 409 for a rule that is there. */
export interface Rules {
  list(filter: RuleFilter): ReturnType<typeof listRules>;
  create(caller: Caller, rule: RuleInput): Promise<RuleRow>;
  update(caller: Caller, id: string, change: Partial<RuleInput>): Promise<RuleRow>;
  remove(caller: Caller, id: string): Promise<void>;
}

export function createRules({
  database,
  events,
}: {
  readonly database: Database;
  readonly events: Events;
}): Rules {
  const tell = (
    transaction: Transaction,
    caller: Caller,
    what: string,
    id: string,
  ): Promise<void> =>
    events.emit(transaction, caller, { topic: `authorization:${what}:rule`, ids: [id] });

  return {
    list: (filter) => listRules(database, filter),
    create: (caller, { role, conditions = {}, resource, action }) =>
      database.transaction(async (transaction) => {
        requireSound(conditions);
        const id = newId();
        await insertRule(transaction, {
          id,
          roleId: await roleIdOf(transaction, role),
          resource,
          action,
          conditions,
        });
        await tell(transaction, caller, 'create', id);
        return requireOnly(transaction, id);
      }),
    update: (caller, id, { role, conditions, resource, action }) =>
      database.transaction(async (transaction) => {
        if (conditions) requireSound(conditions);
        await requireRule(transaction, id);
        await updateRule(transaction, id, {
          ...(role === undefined ? {} : { roleId: await roleIdOf(transaction, role) }),
          ...(resource === undefined ? {} : { resource }),
          ...(action === undefined ? {} : { action }),
          ...(conditions === undefined ? {} : { conditions }),
        });
        await tell(transaction, caller, 'update', id);
        return requireOnly(transaction, id);
      }),
    remove: (caller, id) =>
      database.transaction(async (transaction) => {
        if (!(await deleteRule(transaction, id))) throw authorizationErrors.RULE_NOT_FOUND();
        await tell(transaction, caller, 'delete', id);
      }),
  };
}

async function requireRule(transaction: Transaction, id: string): Promise<RuleRow> {
  const rule = await ruleById(transaction, id);
  if (!rule) throw authorizationErrors.RULE_NOT_FOUND();
  return rule;
}

/** The rule as it is now; 409 when another one says the same. */
async function requireOnly(transaction: Transaction, id: string): Promise<RuleRow> {
  if (await hasTwin(transaction, id)) throw authorizationErrors.RULE_EXISTS();
  return requireRule(transaction, id);
}

async function roleIdOf(transaction: Transaction, name: string): Promise<string> {
  const role = await roleByName(transaction, name);
  if (!role) throw invalid('role', 'exists', `there is no role "${name}"`);
  return role.id;
}

function requireSound(conditions: Readonly<Record<string, unknown>>): void {
  const faults = conditionFaults(conditions);
  if (faults.length > 0) throw invalidDefinition(faults);
}
