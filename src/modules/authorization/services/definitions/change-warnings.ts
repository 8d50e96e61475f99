/**
 * What a change of a definition does to people, found before it is made: on how many objects other people may do
 * something than before, and on how many nobody may any more. By what gives the action on the object itself; who stands
 * behind a folder or a team is not followed. Slips in rules are told beside it.
 */
import { isDeepStrictEqual } from 'node:util';
import type { CompiledRule } from '../../../../data/rules/rule.ts';
import { RuleError } from '../../../../data/rules/syntax.ts';
import { tableName } from '../../../../data/schema/compile/layout.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Queryable } from '../../../../kernel/database/database.ts';
import { literalOf } from '../../../../kernel/database/literal.ts';
import { rulesIn, typedRule } from '../../engine/record-rules.ts';
import { sourceOf, type TupleSource } from '../../engine/tuple-source.ts';
import type { Definition } from '../../model/definition.ts';
import { derivationsOf } from '../../model/derivations.ts';
import { mayBeOpen, namesOfObject } from '../../model/expansion-rules.ts';
import type { Expression, RecordRule } from '../../model/expression.ts';
import { buildModel, grantRelation, type Model, type Name } from '../../model/model.ts';
import { liveTuple } from '../../tuple-sql.ts';
import {
  type DefinitionContent,
  parsedDefinition,
  type StoredDefinition,
  validDefinitions,
} from './stored-definition.ts';

export interface ChangeWarning {
  readonly action: string;
  /** Objects on which other people may do it than before; counted up to a bound. */
  readonly changed: number;
  /** Those of them on which nobody may do it any more. */
  readonly closed: number;
  /** No object is left on which anybody may do it. */
  readonly lockedOut: boolean;
  readonly message: string;
}

/** Objects that are looked at for an action: a definition is changed while all others wait. */
const MAX_COUNTED = 100_000;

export interface WarningSearch {
  readonly database: Queryable;
  readonly before: StoredDefinition;
  readonly after: DefinitionContent;
  /** The definitions beside it, as they will be. */
  readonly others: readonly Definition[];
  readonly schemas: Schemas;
}

type Schemas = Pick<SchemaRegistry, 'get'>;

/** Values in rules that no record has: what is compared with them never holds. */
export function slipWarnings(
  { name, actions }: Definition,
  schemas: Schemas,
): readonly ChangeWarning[] {
  return [...actions].flatMap(([action, expression]) =>
    rulesIn(expression).flatMap((rule) =>
      (readableRule(schemas, name, rule)?.slips() ?? []).map((slip) => ({
        ...{ action, changed: 0, closed: 0, lockedOut: false },
        message: `${rule.place}.rule: ${slip}`,
      })),
    ),
  );
}

/** Nothing where records lack what it speaks of, or are not there yet. */
function readableRule(schemas: Schemas, type: string, rule: RecordRule): CompiledRule | undefined {
  const schema = schemas.get(type);
  try {
    return schema && typedRule(schema, rule);
  } catch (error) {
    if (error instanceof RuleError) return undefined;
    throw error;
  }
}

const nobody: Expression = { kind: 'none' };

/** A definition without the rules that hold for nobody. */
function withoutDeadRules(definition: Definition, schemas: Schemas): Definition {
  const isDead = (rule: RecordRule): boolean =>
    readableRule(schemas, definition.name, rule)?.mayHold() === false;
  const live = (expression: Expression): Expression => {
    switch (expression.kind) {
      case 'rule':
        return isDead(expression) ? nobody : expression;
      case 'union':
        return { kind: 'union', of: expression.of.map(live).filter(({ kind }) => kind !== 'none') };
      case 'intersection': {
        const of = expression.of.map(live);
        return of.some(({ kind }) => kind === 'none') ? nobody : { kind: 'intersection', of };
      }
      case 'exclusion': {
        const [base, subtract] = [live(expression.base), live(expression.subtract)];
        return base.kind === 'none' ? nobody : { kind: 'exclusion', base, subtract };
      }
      default:
        return expression;
    }
  };
  const actions = new Map([...definition.actions].map(([name, one]) => [name, live(one)]));
  return { ...definition, actions };
}

/** By action, for actions that were there. */
export async function changeWarnings(search: WarningSearch): Promise<readonly ChangeWarning[]> {
  const { before, others, schemas } = search;
  // What counted for nothing is taken from nobody.
  if (validDefinitions([before]).length === 0) return [];
  // What its records say does not hang on the definition.
  const after = { ...search.after, ownerColumns: before.ownerColumns === true };
  const modelOf = (content: DefinitionContent): Model =>
    buildModel(
      [...others.filter(({ name }) => name !== content.name), parsedDefinition(content)].map(
        (one) => withoutDeadRules(one, schemas),
      ),
      0,
    );
  const models = { before: modelOf(before), after: modelOf(after) };
  const warnings: ChangeWarning[] = [];
  for (const action of Object.keys(before.permissions)) {
    const [was, is] = [waysTo(models.before, before, action), waysTo(models.after, after, action)];
    if (isDeepStrictEqual(was.words, is.words)) continue;
    const { changed, closed, some } = await countOf(search.database, before, { was, is });
    if (changed === 0) continue;
    const lockedOut = closed > 0 && !some;
    const counts = { type: before.name, action, changed, closed, lockedOut };
    warnings.push({ action, changed, closed, lockedOut, message: messageOf(counts) });
  }
  return warnings;
}

const countText = (count: number): string =>
  count >= MAX_COUNTED ? `at least ${count}` : String(count);

function messageOf({
  type,
  action,
  changed,
  closed,
  lockedOut,
}: Omit<ChangeWarning, 'message'> & { readonly type: string }): string {
  const whole = `${countText(changed)} of ${type} change hands for "${action}"`;
  if (lockedOut) return `Nobody may ${action} any ${type} any more: ${whole}`;
  return closed === 0
    ? whole
    : `${whole}; nobody may ${action} ${countText(closed)} of them any more`;
}

/** How somebody comes to an action by what is written about an object itself. */
interface Ways {
  /** Relations of the object, and grants, with what they mean where they lead on. */
  readonly relations: ReadonlyMap<string, unknown>;
  /** Everybody may, or a rule says who, without any relation. */
  readonly open: boolean;
  /** What opens it, where it is open: the rules, or `*`, and how it is derived from them. */
  readonly opening: unknown;
  /** All that it says, the same for all ways to write it. */
  readonly words: unknown;
  readonly source: TupleSource;
}

function waysTo(model: Model, content: DefinitionContent, action: string): Ways {
  const name: Name = { type: content.name, kind: 'action', name: action };
  const exists = content.permissions[action] !== undefined;
  const names = exists ? namesOfObject(model, name, true) : [];
  const actions = names.filter(({ kind }) => kind === 'action').map((one) => one.name);
  const direct = names.filter(({ kind }) => kind === 'relation').map((one) => one.name);
  const led = names.flatMap((one) =>
    model.dependencies(one).flatMap(({ through }) => through ?? []),
  );
  const held = [...new Set([...direct, ...led])].sort();
  const takes = (relation: string): unknown => unordered(taken(content.relations[relation]));
  const derivations = exists ? derivationsOf(model, name) : new Map<string, never>();
  const meaning = (relation: string): unknown => [derivations.get(relation), takes(relation)];
  const grants = actions.map(grantRelation);
  const relations = new Map([...held, ...grants].map((one) => [one, meaning(one)]));
  const open = exists && mayBeOpen(model, name);
  return {
    relations,
    open,
    opening: open && [...derivations].filter(([one]) => !relations.has(one)).sort(),
    words: [derivations, held.map((one) => [one, takes(one)]), content.conditions],
    source: sourceOf(
      model,
      held.map((relation) => ({ type: content.name, relation })),
    ),
  };
}

/** Whether users may share a relation says nothing about who stands in it. */
function taken(relation: unknown): unknown {
  if (typeof relation !== 'object' || relation === null || !('types' in relation)) return relation;
  const { types, strict } = relation as { readonly types: unknown; readonly strict?: unknown };
  return strict === true ? { types, strict } : types;
}

/** Lists of types mean the same in any order, and with something named twice. */
function unordered(value: unknown): unknown {
  if (Array.isArray(value)) {
    const texts = value.map((one) => JSON.stringify(unordered(one)) ?? 'null');
    return [...new Set(texts)].sort();
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, unordered(one)]));
}

interface Counts {
  readonly changed: number;
  readonly closed: number;
  /** Somebody may on some object. */
  readonly some: boolean;
}

async function countOf(
  database: Queryable,
  content: DefinitionContent,
  { was, is }: { readonly was: Ways; readonly is: Ways },
): Promise<Counts> {
  const type = literalOf(content.name, 'text');
  const values: unknown[] = [];
  const list = (relations: Iterable<string>): string =>
    `(select $${values.push([...relations])}::text[])`;
  const counts = (relations: string): string =>
    `t.resource_type = ${type} and t.relation = any(${relations}::text[]) and ${liveTuple('t')}`;
  const through = ({ source }: Ways, relations: Iterable<string>): string =>
    `select t.resource_id as id from ${source.rows} t where ${counts(list(relations))}`;
  // What is open is so on every object: those that something is written about, or that are records of the platform.
  const all = content.ownerColumns
    ? `select d."_id"::text as id from ${tableName(content.name)} d`
    : `select t.resource_id as id from penstock.tuples t where t.resource_type = ${type}`;
  const some = (rows: string): string =>
    `select distinct x.id from (select * from (${rows}) u limit ${MAX_COUNTED}) x`;
  const differing = [...new Set([...was.relations.keys(), ...is.relations.keys()])].filter(
    (one) => !isDeepStrictEqual(was.relations.get(one), is.relations.get(one)),
  );
  // With the same relations it says something else about them.
  const about = differing.length > 0 ? differing : [...was.relations.keys()];
  const touched = isDeepStrictEqual(was.opening, is.opening)
    ? `${through(was, about)} union all ${through(is, about)}`
    : all;
  const closed = (): string => {
    const before = was.open ? all : through(was, was.relations.keys());
    const left = `exists (select 1 from ${is.source.rows} t where t.resource_id = x.id${is.source.resource('t', 'x.id')} and ${counts(list(is.relations.keys()))})`;
    return `(select count(*)::int from (${some(before)}) x where not ${left})`;
  };
  const text = `select (select count(*)::int from (${some(touched)}) c) as changed, ${is.open ? '0' : closed()} as closed,
    ${is.open ? 'true' : `exists (${through(is, is.relations.keys())})`} as some`;
  const { rows } = await database.query<Counts>({ text, values });
  return rows[0] ?? { changed: 0, closed: 0, some: true };
}
