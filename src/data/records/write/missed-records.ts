/** What a write answers about records that its statement did not find. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import { lacksRows } from '../access/granted-rows.ts';
import { fieldsForbidden, recordErrors } from '../errors.ts';
import { classOf, viewOf } from '../read/record-view.ts';
import { restriction } from '../sql/prepared-statements.ts';
import { idsTest, idTest } from '../sql/row-id.ts';
import { runWrite, type WriteContext } from './write-context.ts';

interface Miss {
  readonly database?: Queryable | undefined;
  /** Fields that were to be set. */
  readonly columns?: readonly string[];
  /** In front of their names: empty, or `docs.3.`. */
  readonly place?: string;
}

interface Held {
  readonly version: number | null;
  readonly may: boolean | null;
}

/** Why a statement found no row to change: 404 when the caller cannot see one, else 412, 403 or 409. */
export async function missError(
  context: WriteContext,
  id: string,
  { database, columns = [], place = '' }: Miss = {},
): Promise<Error> {
  const { schema, caller, dependencies, options } = context;
  const view = await viewOf(dependencies, caller, schema, {
    ...(options.scope !== undefined && { scope: options.scope }),
  });
  const guarded = columns.filter((name) => context.rights.guarded.has(name));
  const may = guarded.length > 0 ? context.predicate : undefined;
  const asksVersion = options.expectedVersion !== undefined;
  const statement = dependencies.plans.statement(
    {
      schema,
      shape: `seen|${guarded.length > 0}|${asksVersion}|${view.predicate?.shape ?? ''}|${may?.shape ?? ''}`,
      values: [id],
      dynamic: view.predicate !== undefined || may !== undefined,
      class: classOf(view),
    },
    (parameters) => {
      const held = may?.compile('t0."_id"', parameters.next, 'row', 't0') ?? 'true';
      const version = asksVersion ? 't0."__v"' : 'null';
      const seen = `${version} as version, ${guarded.length > 0 ? `(${held}) is true` : 'null'} as may`;
      return `select ${seen} from ${schema.rows} t0 where ${idTest(schema, 't0', '$1')}${restriction(view.predicate, 't0', parameters, 'row')}`;
    },
  );
  const [row] = await runWrite<Held>(context, statement, database);
  if (!row) return recordErrors.RECORD_NOT_FOUND();
  // Of the version that was seen something else is in the way.
  if (options.expectedVersion !== undefined && row.version !== options.expectedVersion)
    return errors.PRECONDITION_FAILED();
  // Who may not change the record at all is told that, and not about fields.
  if (guarded.length > 0 && row.may) return fieldsForbidden(guarded.map((name) => place + name));
  // Nothing forbids it: the record came, or came back, after the statement had looked for it.
  return context.predicate ? lacksRows(context) : recordErrors.WRITE_CONFLICT({ retryAfter: 1 });
}

/** One of several records that a statement did not find. */
export interface MissedRecord {
  readonly id: string;
  /** Where it stands in the request, such as `docs.3.`. */
  readonly place: string;
  /** Fields that were to be set. */
  readonly columns: readonly string[];
}

/** Why a statement did not find several rows to change: 404 that names those that the caller cannot see, else 403 or 409. */
export async function missErrors(
  context: WriteContext,
  missed: readonly MissedRecord[],
  database: Queryable,
): Promise<Error> {
  const { rights, predicate } = context;
  const forbidden = missed.flatMap(({ place, columns }) =>
    columns.filter((name) => rights.guarded.has(name)).map((name) => place + name),
  );
  // Without a rule nothing but its absence keeps a row from being found.
  const isRuled = predicate !== undefined || forbidden.length > 0;
  const seen = isRuled ? await seenAmong(context, missed, database) : new Set<string>();
  const absent = missed.filter(({ id }) => !seen.has(id));
  if (absent.length > 0) {
    const message = 'there is no such record';
    const problems = absent.map(({ place }) => ({ path: `${place}_id`, rule: 'exists', message }));
    return recordErrors.RECORD_NOT_FOUND({ errors: problems });
  }
  if (forbidden.length > 0) return fieldsForbidden(forbidden);
  if (!predicate) return recordErrors.WRITE_CONFLICT({ retryAfter: 1 });
  const message = 'you may not change this record';
  const problems = missed.map(({ place }) => ({ path: `${place}_id`, rule: 'access', message }));
  return errors.FORBIDDEN({ message: lacksRows(context).message, errors: problems });
}

/** Ids of those that the caller may read. */
export async function seenAmong(
  context: WriteContext,
  missed: readonly Pick<MissedRecord, 'id'>[],
  database: Queryable,
): Promise<ReadonlySet<string>> {
  const { schema, caller, dependencies, options } = context;
  const { scope } = options;
  const view = await viewOf(dependencies, caller, schema, scope === undefined ? {} : { scope });
  const statement = dependencies.plans.statement(
    {
      schema,
      shape: `seenMany|${view.predicate?.shape ?? ''}`,
      values: [missed.map(({ id }) => id)],
      dynamic: view.predicate !== undefined,
      class: view.predicate === undefined ? classOf(view) : 'pooled',
    },
    (parameters) =>
      `select t0."_id"::text as id from ${schema.rows} t0 where ${idsTest(schema, 't0', '$1')}${restriction(view.predicate, 't0', parameters, 'row')}`,
  );
  const rows = await runWrite<{ id: string }>(context, statement, database);
  return new Set(rows.map(({ id }) => id));
}
