/**
 * `$inc`, `$push`, `$pull` and `$unset` in a PATCH: changes of what is stored at the moment of the change,
 * in one statement, so that changes at the same time all count.
 */

import { invalid } from '../../../kernel/errors.ts';
import { actorOf } from '../../../kernel/hooks/hooks.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { shortName } from '../../schema/language/names.ts';
import { isTrusted } from '../access/operation-access.ts';
import { invalidRecord } from '../errors.ts';
import type { RecordRow } from '../read/record-view.ts';
import { filteredStatement } from '../read/selection.ts';
import { type Assigned, updatedRows } from '../sql/changed-rows.ts';
import { type Parameters, restriction } from '../sql/prepared-statements.ts';
import { idTest, live } from '../sql/row-id.ts';
import type { Assignment, RecordInput, RecordText } from '../store.ts';
import {
  assignmentTexts,
  type BoundAssignment,
  bindAssignments,
  referenceSources,
  resultRules,
  runAssigned,
} from './assignments.ts';
import { asSeen } from './created-answer.ts';
import { missError } from './missed-records.ts';
import { placedChange, requirePlacement } from './placement.ts';
import { comparedFields, eventFieldsOf, type MovedRows, movedColumn } from './placement-text.ts';
import { type ReferenceSource, requireReferences, sourceOf } from './references.ts';
import { withAnswer } from './statements.ts';
import { type ColumnValues, encoded, namesOf } from './validate.ts';
import { announceEvents, runWrite, type WriteContext } from './write-context.ts';
import { settableRows } from './write-rights.ts';

const actions = { $inc: 'increment', $push: 'append', $pull: 'remove', $unset: 'set' } as const;
type Operator = keyof typeof actions;
const operatorNames = Object.keys(actions) as readonly Operator[];

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** True when the schema takes operators of this caller. */
const takesOperators = ({ schema, caller, options }: WriteContext): boolean =>
  isTrusted(caller) ||
  options.assigned !== undefined ||
  schema.modelOptions.conduit.cms.crudOperations.update.operators === true;

const operatorsIn = (input: RecordInput): readonly string[] =>
  Object.keys(input).filter((key) => key.startsWith('$'));

/** Throws 400 for operators where they cannot mean anything. `place`: in front of their names. */
export function refuseOperators(
  input: RecordInput,
  place: string,
  message = 'operators are for the PATCH of one record',
): void {
  const [first] = operatorsIn(input);
  if (first !== undefined) throw invalid(place + shortName(first), 'operator', message);
}

/** The changes that the operators of an input mean, behind those that are there already. Throws 400. */
export function operatorsOf(context: WriteContext, input: RecordInput): readonly Assignment[] {
  if (!takesOperators(context)) {
    refuseOperators(
      input,
      '',
      'is an operator, which this schema does not take: cms.crudOperations.update.operators',
    );
    return [];
  }
  const used = operatorsIn(input);
  const assignments = used.flatMap((key) => {
    const operator = operatorNames.find((name) => name === key);
    if (!operator)
      throw invalid(
        shortName(key),
        'operator',
        `is not an operator; there are ${operatorNames.join(', ')}`,
      );
    const fields = input[key];
    if (!isObject(fields)) throw invalid(key, 'type', 'must be an object of fields');
    return Object.entries(fields).flatMap(([field, operand]) =>
      assignmentsOf(context.schema, operator, { field, operand }),
    );
  });
  requireApart(assignments, input);
  const { assigned = [] } = context.options;
  const others = { ...input, ...touchedInput(assignments) };
  for (const { field, place } of assigned)
    if (Object.hasOwn(others, field)) throw twice(field, place);
  return [...assigned, ...assignments];
}

interface Use {
  readonly field: string;
  readonly operand: unknown;
}

function assignmentsOf(
  schema: CompiledSchema,
  operator: Operator,
  { field, operand }: Use,
): Assignment[] {
  const place = `${operator}.${shortName(field)}`;
  const action = actions[operator];
  if (operator === '$unset') return [{ field, action, value: null, place }];
  if (operator === '$inc') return [{ field, action, value: operand, place }];
  const given =
    isObject(operand) && Object.keys(operand).join() === '$each' ? operand.$each : [operand];
  if (!Array.isArray(given)) throw invalid(`${place}.$each`, 'type', 'must be a list of elements');
  const kind = schema.tree.fields.get(field);
  // A list of lists would take a list for several elements.
  if (kind?.kind === 'array' && kind.items.kind === 'array')
    return given.map((value) => ({ field, action, value, place }));
  return [{ field, action, value: given, place }];
}

/** What two parts of one input mean for the same field depends on nothing that is written there. */
function requireApart(assignments: readonly Assignment[], input: RecordInput): void {
  const seen = new Map<string, string>();
  for (const { field, place } of assignments) {
    const other = Object.hasOwn(input, field) ? field : seen.get(field);
    if (other !== undefined && other !== place) throw twice(field, place);
    seen.set(field, place);
  }
}

const twice = (field: string, place: string): Error =>
  invalid(place, 'conflict', `"${shortName(field)}" is changed twice`);

/** Fields that the assignments touch, as an input: for the question whether they may be set. */
export const touchedInput = (assignments: readonly Assignment[]): RecordInput =>
  Object.fromEntries(assignments.map(({ field }) => [field, null]));

type Outcome = RecordRow & MovedRows & { readonly broken: readonly (boolean | null)[] };

/** Sets plain columns and applies the operators. To be called in a transaction. Throws 400 for a result that breaks a rule. */
export async function changeByOperators(
  context: WriteContext,
  id: string,
  {
    plain,
    assignments,
  }: { readonly plain: ColumnValues; readonly assignments: readonly Assignment[] },
): Promise<RecordText> {
  const bound = bindAssignments(context.schema, assignments);
  const columns = [...namesOf(plain), ...bound.map(({ name }) => name)];
  const sources: ReferenceSource[] = [sourceOf(plain, id), ...referenceSources(bound)];
  await requireReferences(context, sources);
  const rules = resultRules(bound);
  const placed = await placedChange(context, columns);
  const compare = placed?.compared;
  const statement = operatorStatement(context, id, { plain, bound, columns, compare });
  const [row] = await runAssigned(bound, () => runWrite<Outcome>(context, statement));
  if (!row) throw await missError(context, id, { columns });
  if (placed) await requirePlacement(context, placed, [row]);
  const problems = rules
    .filter((_, i) => row.broken[i])
    .map(({ place, rule, message }) => ({ path: place, rule, message }));
  if (problems.length > 0) throw invalidRecord(problems);
  announceEvents(context.dependencies);
  const [seen = row] = await asSeen(context, [row]);
  return { id: seen.id, json: seen.json, version: seen.version };
}

interface OperatorChange {
  readonly plain: ColumnValues;
  readonly bound: readonly BoundAssignment[];
  readonly columns: readonly string[];
  readonly compare: readonly string[] | undefined;
}

function operatorStatement(
  context: WriteContext,
  id: string,
  { plain, bound, columns, compare }: OperatorChange,
) {
  const { schema, caller, dependencies, options, populate, conditions } = context;
  const { expectedVersion } = options;
  const eventFields = eventFieldsOf(schema, dependencies.permissions, columns);
  return filteredStatement(
    dependencies.plans,
    { schema, values: [actorOf(caller), id] },
    (parameters) => {
      const version =
        expectedVersion === undefined
          ? ''
          : ` and t0."__v" = ${parameters.next(expectedVersion)}::integer`;
      const values = [...plainTexts(plain, parameters), ...assignmentTexts(bound, parameters)];
      const where = `${idTest(schema, 't0', '$2')}${version}${live(schema, 't0')}${restriction(settableRows(context, columns), 't0', parameters)}`;
      const broken = resultRules(bound).map((rule) => `bool_or(${rule.broken(parameters)})`);
      const failed = `(select array[${broken.join(', ')}]::boolean[] from r) as broken`;
      const extra = compare ? `${failed}, ${movedColumn(schema, compare)}` : failed;
      return withAnswer(
        schema,
        updatedRows(schema, values, {
          where,
          operation: 'update',
          compare: comparedFields(compare, eventFields),
        }),
        { kind: 'update', populate, conditions, many: false, extra, eventFields },
        parameters,
      );
    },
  );
}

const plainTexts = (plain: ColumnValues, { next }: Parameters): Assigned[] => {
  const values = encoded(plain);
  return plain.columns.map(({ name, type }, i) => [name, `${next(values[i])}::${type}`]);
};
