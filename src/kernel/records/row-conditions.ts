/** Rules of fields that depend on the record, as SQL over its row: the caller owns it, or stands in a relation to it. */
import type { Caller } from '../caller.ts';
import { identifier } from '../database/sql.ts';
import type { PermissionPort, RowPredicate } from '../permissions.ts';
import type { AccessRule } from '../schema/access-rule.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { isTrusted } from './access.ts';
import { recordErrors } from './errors.ts';
import type { Parameters } from './parameters.ts';
import type { PopulateTree } from './populate.ts';

export interface RowConditions {
  /** Decides the text of the tests. */
  readonly shape: string;
  /** True for a row `alias` where the rule holds. */
  test(schema: CompiledSchema, rule: AccessRule, row: { readonly alias: string; readonly parameters: Parameters }): string;
}

/** The relation that a rule asks the permission engine for. `undefined`: the owner field decides. */
function relationOf({ modelOptions }: CompiledSchema, rule: AccessRule): string | undefined {
  if (rule.kind === 'relation') return rule.name;
  return rule.kind === 'owner' && !modelOptions.conduit.owner ? 'owner' : undefined;
}

interface ConditionRequest {
  readonly caller: Caller;
  /** The schema that is read or written, with the rules that matter of it. */
  readonly schema: CompiledSchema;
  readonly rules: readonly AccessRule[];
  readonly populate: PopulateTree;
  readonly scope: string | undefined;
}

/** `undefined` when nothing depends on the record. Throws 503 where the engine is needed and does not run. */
export async function conditionsOf(permissions: PermissionPort, request: ConditionRequest): Promise<RowConditions | undefined> {
  const { caller, schema, rules, populate, scope } = request;
  const asked = [...rules.map((rule) => ({ schema, rule })), ...populatedRules(populate)];
  if (asked.length === 0 || isTrusted(caller)) return undefined;
  const predicates = new Map<string, RowPredicate>();
  for (const one of asked) {
    const relation = relationOf(one.schema, one.rule);
    const key = `${one.schema.name}:${relation}`;
    if (relation === undefined || predicates.has(key)) continue;
    if (!permissions.engine) throw recordErrors.PERMISSIONS_UNAVAILABLE();
    predicates.set(key, await permissions.engine.predicate(caller, relation, one.schema.name, scope));
  }
  const userId = caller.kind === 'user' ? caller.userId : null;
  return {
    shape: [...predicates].map(([key, { shape }]) => `${key}=${shape}`).join(),
    test(of, rule, { alias, parameters }) {
      const predicate = predicates.get(`${of.name}:${relationOf(of, rule)}`);
      if (predicate) return predicate.compile(`${alias}."_id"`, parameters.next, 'rows', alias);
      const { owner } = of.modelOptions.conduit;
      return owner ? `${alias}.${identifier(owner.field)} = ${parameters.next(userId)}::uuid` : 'false';
    },
  };
}

/** Rules of the fields of related records. */
const populatedRules = (tree: PopulateTree): { readonly schema: CompiledSchema; readonly rule: AccessRule }[] =>
  [...tree.values()].flatMap(({ target, children }) => [
    ...[...(target.sight?.conditional.values() ?? [])].map((rule) => ({ schema: target, rule })),
    ...populatedRules(children),
  ]);
