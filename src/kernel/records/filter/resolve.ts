/** A condition made ready for a caller: checked, and with the rights of the caller on every relation that it follows. */
import type { Caller } from '../../caller.ts';
import type { PermissionPort, RowPredicate } from '../../permissions.ts';
import type { CompiledSchema } from '../../schema/compiled.ts';
import type { SchemaRegistry } from '../../schema/registry.ts';
import { isRowAuthorised, mayRead, requireGranted, rowPredicate } from '../access.ts';
import { recordErrors } from '../errors.ts';
import type { Parameters } from '../parameters.ts';
import { type BoundCondition, type BoundLeaf, bindCondition } from './bind.ts';
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
  const followed = new Map([...leavesOf(bound)].flatMap(({ target, place }) => target.hops.map((hop) => [hop.path, { hop, place }])));
  for (const one of followed.values()) {
    const predicate = await hopPredicate(dependencies.permissions, request, one);
    if (predicate) predicates.set(one.hop.path, predicate);
  }
  return { compile: (alias, parameters) => conditionText(bound, alias, createFilterContext(parameters, predicates)) };
}

function* leavesOf(condition: BoundCondition): Generator<BoundLeaf> {
  if (condition.kind === 'test') yield condition;
  else if (condition.kind === 'not') yield* leavesOf(condition.of);
  else for (const part of condition.of) yield* leavesOf(part);
}

interface FollowedHop {
  readonly hop: Hop;
  /** The condition that follows it. */
  readonly place: string;
}

async function hopPredicate(
  permissions: PermissionPort,
  { caller, scope, granted }: FilterRequest,
  { hop: { target, path }, place }: FollowedHop,
): Promise<RowPredicate | undefined> {
  if (granted) requireGranted(caller, target, 'read');
  else if (!mayRead(caller, target)) {
    const message = `"${path}" leads to records of ${target.name}, which you may not read`;
    throw recordErrors.POPULATE_FORBIDDEN({ message, errors: [{ path: place, rule: 'access', message }] });
  }
  if (!isRowAuthorised(caller, target, 'read')) return undefined;
  return rowPredicate(permissions, { caller, schema: target, action: 'read', scope });
}
