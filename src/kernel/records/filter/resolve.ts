/** A condition made ready for a caller: checked, and with the rights of the caller on every relation that it follows. */
import type { Caller } from '../../caller.ts';
import type { PermissionPort, RowPredicate } from '../../permissions.ts';
import type { CompiledSchema } from '../../schema/compiled.ts';
import type { SchemaRegistry } from '../../schema/registry.ts';
import { isRowAuthorised, mayRead, requireGranted, rowPredicate } from '../access.ts';
import { recordErrors } from '../errors.ts';
import type { Parameters } from '../parameters.ts';
import { type BoundCondition, bindCondition } from './bind.ts';
import { conditionText, createFilterContext } from './compile.ts';
import type { Condition } from './condition.ts';
import type { Hop } from './target.ts';

export interface FilterRequest {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly condition: Condition;
  readonly scope?: string | undefined;
  /** The relations were chosen by somebody who may (the author of a custom endpoint): read switches do not count. */
  readonly granted?: boolean | undefined;
}

/** Ready to become part of statements. */
export interface RecordFilter {
  /** A boolean expression over the row `alias`. */
  compile(alias: string, parameters: Parameters): string;
}

/** Throws 400 with all faults, 401, 403 for a relation to what the caller may not read, 503. */
export async function resolveFilter(
  dependencies: { readonly schemas: SchemaRegistry; readonly permissions: PermissionPort },
  request: FilterRequest,
): Promise<RecordFilter> {
  const { caller, schema, condition } = request;
  const bound = bindCondition(schema, condition, {
    schema: (name) => dependencies.schemas.get(name),
    hidden: caller.kind === 'system',
  });
  const predicates = new Map<string, RowPredicate>();
  for (const hop of new Map([...hopsOf(bound)].map((one) => [one.path, one])).values()) {
    const predicate = await hopPredicate(dependencies.permissions, request, hop);
    if (predicate) predicates.set(hop.path, predicate);
  }
  return { compile: (alias, parameters) => conditionText(bound, alias, createFilterContext(parameters, predicates)) };
}

function* hopsOf(condition: BoundCondition): Generator<Hop> {
  if (condition.kind === 'test') yield* condition.target.hops;
  else if (condition.kind === 'not') yield* hopsOf(condition.of);
  else for (const part of condition.of) yield* hopsOf(part);
}

async function hopPredicate(
  permissions: PermissionPort,
  { caller, scope, granted }: FilterRequest,
  { target, path }: Hop,
): Promise<RowPredicate | undefined> {
  if (granted) requireGranted(caller, target);
  else if (!mayRead(caller, target)) {
    const message = `"${path}" leads to records of ${target.name}, which you may not read`;
    throw recordErrors.POPULATE_FORBIDDEN({ message, errors: [{ path, rule: 'access', message }] });
  }
  if (!isRowAuthorised(caller, target)) return undefined;
  return rowPredicate(permissions, { caller, schema: target, action: 'read', scope });
}
