/** What reads and writes of many records by condition have in common: which rows they are about. */
import type { Caller } from '../../caller.ts';
import type { Statement } from '../../database/database.ts';
import type { CompiledSchema } from '../../schema/compiled.ts';
import { requireGranted, requireOffered } from '../access.ts';
import { type RecordFilter, resolveFilter } from '../filter/resolve.ts';
import { createParameters, type Parameters, restriction } from '../parameters.ts';
import type { PlanCache } from '../plan-cache.ts';
import { type RecordDependencies, type View, viewOf } from '../reads.ts';
import type { SelectOptions } from '../store.ts';

/** Rows of a schema that fit a filter and that the caller may read. */
export interface Selection {
  readonly schema: CompiledSchema;
  readonly view: View;
  readonly filter: RecordFilter;
}

/** Throws 400, 401, 403, 404 or 503. */
export async function selectionOf(
  dependencies: RecordDependencies,
  { caller, schema }: { readonly caller: Caller; readonly schema: CompiledSchema },
  options: SelectOptions,
): Promise<Selection> {
  const { filter: condition, granted, scope, populate } = options;
  if (granted) requireGranted(caller, schema, 'read');
  else requireOffered(caller, schema, 'read');
  const filter = await resolveFilter(dependencies, { caller, schema, condition, scope, granted });
  const view = await viewOf(dependencies, caller, schema, { ...(scope !== undefined && { scope }), ...(populate && { populate }) });
  return { schema, view, filter };
}

/** What stands behind `where`, for the rows `t0`. */
export const selectionText = ({ view, filter }: Selection, parameters: Parameters): string =>
  `${filter.compile('t0', parameters)}${restriction(view.predicate, 't0', parameters)}`;

/** A statement whose text depends on a filter: it is compiled each time, because compiling gathers its values. */
export function filteredStatement(
  plans: PlanCache,
  { schema, values = [] }: { readonly schema: CompiledSchema; readonly values?: readonly unknown[] },
  compile: (parameters: Parameters) => string,
): Statement {
  const parameters = createParameters([...values]);
  const text = compile(parameters);
  return plans.statement({ schema, shape: `filter|${text}`, values: parameters.values, dynamic: true }, () => text);
}
