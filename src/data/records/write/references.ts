/**
 * Links must lead to records that exist. Single relations are left to their foreign keys; this asks before the write
 * where no key can: for lists (PostgreSQL has no foreign keys for the elements of arrays), where the record that a link
 * leads to may be in a trash, and where it depends on the caller which records there are for them. A record that they
 * may not read is refused like one that does not exist: a link to it would tell them that it is there, and could keep
 * its owner from deleting it. Credentials of operators that are narrowed to modules are asked where a module has rules of its
 * own (files): whoever reads the record would read what they have no authority over.
 */
import { modulesOfCaller } from '../../../kernel/authority.ts';
import type { Queryable, Statement } from '../../../kernel/database/database.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import type { Problem } from '../../../kernel/errors.ts';
import type { MaybePromise } from '../../../kernel/maybe-promise.ts';
import type { RowPredicate } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { isRowAuthorised, rowPredicate } from '../access/operation-access.ts';
import { invalidRecord } from '../errors.ts';
import { isSurelyReadable } from '../read/checked-record.ts';
import { restriction } from '../sql/prepared-statements.ts';
import type { ColumnValues } from './validate.ts';
import { runWrite, type WriteContext } from './write-context.ts';

/** A record that is about to be written. */
export interface ReferenceSource {
  value(field: string): unknown;
  /** Where the value stands in the input. */
  placeOf(field: string): string;
  /**
   * Id of the record where it is there already: links that it has may stay, whoever changes it, and also where they lead
   * nowhere by now (a user in a list who was deleted since). Else nobody could write again what they have read.
   */
  readonly record?: string | undefined;
}

/** Columns of one record. `record`: its id, when it is there already. */
export const sourceOf = ({ columns, values }: ColumnValues, record?: string): ReferenceSource => ({
  value: (field) => values[columns.findIndex(({ name }) => name === field)],
  placeOf: (field) => field,
  record,
});

/** Throws 400 with the place of every id that leads nowhere. `undefined`: there is nothing to ask. */
export function requireReferences(
  context: WriteContext,
  sources: readonly ReferenceSource[],
  database?: Queryable,
): Promise<void> | undefined {
  const { schema, dependencies, caller, options } = context;
  const questions: ReferenceQuestion[] = [];
  for (const [field, { model, many }] of schema.relations) {
    const target = dependencies.schemas.get(model);
    if (!target) continue;
    const asked = isRowAuthorised(caller, target, 'read') || isNarrowed(context, target);
    const limited = asked && !options.authored?.has(field);
    if (!(many || limited || target.softDelete || isUnkept(schema, target))) continue;
    const links = referencesOf(field, sources);
    if (links.length > 0)
      questions.push({
        field,
        many,
        target,
        links,
        limited,
        holds: many ? keepsLists(context, target) && 'for key share' : trashHold(target),
      });
  }
  return questions.length > 0 ? askAll(context, questions, database) : undefined;
}

/** The caller is an operator whose credential is for some modules alone, and the records have rules of their module. */
const isNarrowed = (
  { caller, dependencies }: Pick<WriteContext, 'caller' | 'dependencies'>,
  target: CompiledSchema,
): boolean =>
  caller.kind === 'admin' &&
  caller.scopes !== undefined &&
  dependencies.permissions.rules.has(target.name) &&
  modulesOfCaller(caller) !== undefined;

/** No foreign key leads from a table of ours to one of others. */
const isUnkept = (source: CompiledSchema, target: CompiledSchema): boolean =>
  target.mapping !== undefined && source.mapping === undefined;

interface ReferenceQuestion {
  readonly field: string;
  readonly many: boolean;
  readonly target: CompiledSchema;
  readonly links: readonly Link[];
  /** It depends on the caller which records there are. */
  readonly limited: boolean;
  /** The lock that keeps the records where they are until the write is done: not deleted, or not in the trash either. */
  readonly holds: string | false;
}

/**
 * Runs a write whose links are asked about. Where a single relation leads to a schema with a trash, or a list to records
 * that nobody deletes while a list holds them, question and write are one transaction: the question locks what is referred
 * to, so that it cannot go in between.
 */
export function withCheckedReferences<T>(
  context: WriteContext,
  sources: readonly ReferenceSource[],
  write: () => Promise<T>,
): Promise<T> {
  const { schema, dependencies } = context;
  for (const [field, { model, many }] of schema.relations) {
    const target = dependencies.schemas.get(model);
    if (!target || !(many ? keepsLists(context, target) : trashHold(target))) continue;
    if (sources.some(({ value }) => isLink(value(field))))
      return dependencies.database.transaction(write);
  }
  return write();
}

const isLink = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : typeof value === 'string';

const trashHold = ({ softDelete }: CompiledSchema): 'for share' | false =>
  softDelete !== undefined && 'for share';

/** A module with rules of its own (files) looks into lists before it deletes what they hold, and locks that first. */
const keepsLists = ({ dependencies }: WriteContext, target: CompiledSchema): boolean =>
  target.mapping === undefined && dependencies.permissions.rules.has(target.name);

interface Link {
  readonly id: string;
  /** Where it stands. */
  readonly path: string;
  readonly record: string | undefined;
}

function referencesOf(field: string, sources: readonly ReferenceSource[]): readonly Link[] {
  return sources.flatMap(({ value, placeOf, record }): Link[] => {
    const given = value(field);
    if (Array.isArray(given))
      return given.map((id, i) => ({ id: String(id), path: `${placeOf(field)}.${i}`, record }));
    return typeof given === 'string' ? [{ id: given, path: placeOf(field), record }] : [];
  });
}

/** One query for each field that leads to records, however many of them. */
async function askAll(
  context: WriteContext,
  questions: readonly ReferenceQuestion[],
  database?: Queryable,
): Promise<void> {
  const problems: Problem[] = [];
  for (const question of questions) {
    const { target, links, holds } = question;
    if (holds) {
      const held = `select 1 from ${target.table} t where t."_id" = any($1::uuid[]) order by t."_id" ${holds}`;
      await runWrite(context, { text: held, values: [links.map(({ id }) => id)] }, database);
    }
    for (const { id, path } of await danglingReferences(context, question, database)) {
      if (context.options.unresolved && target.name === context.schema.name)
        context.options.unresolved({ id, path });
      else
        problems.push({
          path,
          rule: 'relation',
          message: `there is no such record of ${target.name}`,
        });
    }
  }
  if (problems.length > 0) throw invalidRecord(problems);
}

async function danglingReferences(
  context: WriteContext,
  question: ReferenceQuestion,
  database?: Queryable,
): Promise<readonly Link[]> {
  const { target, links, limited } = question;
  const { caller, dependencies } = context;
  const [link] = links;
  // Mostly one that its record says enough about.
  if (limited && !database && link && links.length === 1)
    if (await isSurelyReadable(dependencies, caller, target, link.id)) return [];
  const named = limited ? [...new Set(links.map(({ id }) => id))] : [];
  const seen = limited ? await readable(context, target, named) : undefined;
  const statement = danglingStatement(context, question, seen);
  const rows = await runWrite<{ n: number }>(context, statement, database);
  return rows.flatMap(({ n }) => links[n - 1] ?? []);
}

/** Answers the numbers of links, from 1, that lead nowhere. `seen`: any of these makes a record one that the caller may refer to. */
function danglingStatement(
  { schema, predicate, dependencies }: WriteContext,
  { target, links, field, many }: ReferenceQuestion,
  seen: readonly RowPredicate[] | undefined,
): Statement {
  // The ids of tables of others need not be UUIDs: there, no link is kept.
  const records = links.map(({ record }) => (schema.mapping ? null : (record ?? null)));
  const keeps = records.some((record) => record !== null);
  const [first, ...others] = seen ?? [];
  // Who may change a record is text of its own schema, which changes without the other one.
  const held = keeps && [schema._id, schema.__v, field, many, predicate?.shape];
  const shapes = [seen?.map(({ shape }) => shape), held];
  return dependencies.plans.statement(
    {
      schema: target,
      shape: `links ${JSON.stringify([schema.rows, ...shapes])}`,
      values: [links.map(({ id }) => id), records],
      dynamic: true,
      identity: others.length === 0 && !keeps ? first?.identity : undefined,
      class: seen?.every(({ isLight }) => isLight) && links.length === 1 ? 'short' : 'pooled',
    },
    (parameters) => {
      const { next } = parameters;
      const tests = seen?.map(({ compile }) => `(${compile('t0."_id"', next, 'row', 't0')})`);
      const visible = tests ? ` and (${tests.join(' or ') || 'false'})` : '';
      const column = `t1.${identifier(field)}`;
      const same = many ? `w.id = any(${column})` : `${column} = w.id`;
      // Of a record that they may not change they learn nothing.
      const kept = keeps
        ? ` and not exists (select 1 from ${schema.rows} t1 where t1."_id" = w.record and ${same}${restriction(predicate, 't1', parameters, 'row')})`
        : '';
      return (
        `select w.n::integer as n from unnest((select $1::uuid[])::uuid[], (select $2::uuid[])::uuid[]) with ordinality w(id, record, n) ` +
        `where not exists (select 1 from ${target.rows} t0 where t0."_id" = w.id${visible})${kept}`
      );
    },
  );
}

/** What the caller may refer to: as themselves, or as what they act for. Visitors read none. */
async function readable(
  { caller, options, dependencies }: WriteContext,
  schema: CompiledSchema,
  ids: readonly string[],
): Promise<readonly RowPredicate[]> {
  if (caller.kind === 'anonymous' || caller.kind === 'system') return [];
  const { scope } = options;
  const ask = (as?: string): MaybePromise<RowPredicate | undefined> =>
    rowPredicate(dependencies.permissions, { caller, schema, action: 'refer', scope: as, ids });
  const own = await ask();
  const acting = scope === undefined ? undefined : await ask(scope);
  return [own, acting].filter((predicate) => predicate !== undefined);
}
