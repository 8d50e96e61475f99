/** Changing every record that fits a condition, as one statement with an event for each. */
import { callerKey } from '../../caller.ts';
import { identifier } from '../../database/sql.ts';
import { invalidRecord, recordErrors } from '../errors.ts';
import type { Condition } from '../filter/condition.ts';
import { resolveFilter } from '../filter/resolve.ts';
import { requireLinks } from '../links.ts';
import { restriction } from '../parameters.ts';
import { eventRows, touched } from '../statements.ts';
import type { Assignment } from '../store.ts';
import { announceEvents, runWrite, type WriteContext } from '../write-context.ts';
import { assignmentTexts, type BoundAssignment, bindAssignments, linkSources, resultRules } from './assignments.ts';
import { filteredStatement } from './selection.ts';

/** Records that one request may change or delete: each leaves an event. */
export const MAX_AFFECTED = 50_000;

interface Outcome {
  readonly touched: number;
  /** For each rule about results whether some row breaks it. */
  readonly broken: readonly (boolean | null)[];
}

export async function updateSelected(context: WriteContext, condition: Condition, changes: readonly Assignment[]): Promise<number> {
  const { schema, caller, dependencies, options } = context;
  const assignments = bindAssignments(schema, changes);
  const { scope, granted } = options;
  const filter = await resolveFilter(dependencies, { caller, schema, condition, scope, granted });
  const rules = resultRules(assignments);
  const statement = filteredStatement(dependencies.plans, { schema, values: [callerKey(caller)] }, (parameters) => {
    const sets = [...assignmentTexts(assignments, parameters)].map(([name, text]) => `${identifier(name)} = ${text}, `).join('');
    const where = `${filter.compile('t0', parameters)}${restriction(context.predicate, 't0', parameters)}`;
    const change = `update ${schema.table} t0 set ${sets}${touched} where ${where} returning t0.*`;
    const broken = rules.map((rule) => `bool_or(${rule.broken(parameters)})`).join(', ');
    return (
      `with r as (${change}), e as (${eventRows(schema, 'update', 'r', '$1')} order by r."_id") ` +
      `select count(*)::integer as touched, array[${broken}]::boolean[] as broken from r`
    );
  });
  const outcome = await dependencies.database.transaction(async (transaction) => {
    await requireKnownLinks(context, assignments);
    const [row] = await runWrite<Outcome>(context, statement, transaction);
    requireAllowed(row?.touched ?? 0);
    const problems = rules.filter((_, i) => row?.broken[i]).map(({ place, rule, message }) => ({ path: place, rule, message }));
    if (problems.length > 0) throw invalidRecord(problems);
    return row?.touched ?? 0;
  });
  announceEvents(dependencies);
  return outcome;
}

const requireKnownLinks = async (context: WriteContext, assignments: readonly BoundAssignment[]): Promise<void> =>
  requireLinks(context, linkSources(assignments));

/** Thrown inside the transaction, so that nothing of a change that is too large remains. */
export function requireAllowed(count: number): void {
  if (count > MAX_AFFECTED) {
    throw recordErrors.TOO_MANY_RECORDS({ message: `More than ${MAX_AFFECTED} records fit: narrow the filter and go step by step` });
  }
}
