/** Changing every record that fits a condition, as one statement with an event for each. */
import { currentAccount } from '../../account/request-account.ts';
import { callerKey } from '../../caller.ts';
import { MAX_AFFECTED } from '../affected.ts';
import { invalidRecord, recordErrors } from '../errors.ts';
import type { Condition } from '../filter/condition.ts';
import { resolveFilter } from '../filter/resolve.ts';
import { updatedRows } from '../history-rows.ts';
import { withKeptParts } from '../kept-parts.ts';
import { requireLinks } from '../links.ts';
import { restriction } from '../parameters.ts';
import { live } from '../soft-delete.ts';
import { eventRows } from '../statements.ts';
import type { Assignment } from '../store.ts';
import { announceEvents, runWrite, type WriteContext } from '../write-context.ts';
import { requireSettable, settableRows } from '../write-rights.ts';
import { assignmentTexts, type BoundAssignment, bindAssignments, linkSources, resultRules, runAssigned } from './assignments.ts';
import { filteredStatement } from './selection.ts';

interface Outcome {
  readonly touched: number;
  /** For each rule about results whether some row breaks it. */
  readonly broken: readonly (boolean | null)[];
}

export async function updateSelected(context: WriteContext, condition: Condition, changes: readonly Assignment[]): Promise<number> {
  const { schema, caller, dependencies, options } = context;
  const given = Object.fromEntries(changes.map(({ field, value }) => [field, value]));
  requireSettable(context, [{ input: given, place: '' }]);
  const assignments = bindAssignments(schema, changes);
  const predicate = settableRows(
    context,
    changes.map(({ field }) => field),
  );
  const { scope, granted } = options;
  const filter = await resolveFilter(dependencies, { caller, schema, condition, scope, granted });
  const rules = resultRules(assignments);
  const statement = filteredStatement(dependencies.plans, { schema, values: [callerKey(caller)] }, (parameters) => {
    const texts = [...assignmentTexts(assignments, parameters)];
    const values = texts.map(([name, text]) => [name, withKeptParts(schema, name, text)] as const);
    const where = `${filter.compile('t0', parameters)}${live(schema, 't0')}${restriction(predicate, 't0', parameters)}`;
    const change = updatedRows(schema, values, { where, operation: 'update', many: true });
    const broken = rules.map((rule) => `bool_or(${rule.broken(parameters)})`).join(', ');
    return (
      `with ${change}, e as (${eventRows(schema, 'update')}) ` +
      `select count(*)::integer as touched, array[${broken}]::boolean[] as broken from r`
    );
  });
  const outcome = await dependencies.database.transaction(async (transaction) => {
    await requireKnownLinks(context, assignments);
    const [row] = await runAssigned(assignments, () => runWrite<Outcome>(context, statement, transaction));
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
  currentAccount()?.charge('lockedRows', count);
  if (count > MAX_AFFECTED) {
    throw recordErrors.TOO_MANY_RECORDS({ message: `More than ${MAX_AFFECTED} records fit: narrow the filter and go step by step` });
  }
}
