/** Reading one record by its id. Reads of one turn of the event loop share a statement (docs/decisions/507-gathered-reads.md). */
import type { Database, Statement } from '../../../kernel/database/database.ts';
import { createGatheredRead } from '../../../kernel/database/gathered-read.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { isRecordId } from '../../schema/language/record-key.ts';
import { boundedText, requireWholeRecord } from '../answer-bytes.ts';
import { recordErrors } from '../errors.ts';
import { type Parameters, type PlanCache, restriction } from '../sql/prepared-statements.ts';
import { idTest } from '../sql/row-id.ts';
import type { ReadOptions, RecordText } from '../store.ts';
import { requestedKey } from './projection.ts';
import {
  chargeJson,
  classOf,
  identityOf,
  isDynamic,
  type RecordDependencies,
  type RecordRow,
  readError,
  recordColumns,
  runRead,
  type View,
  viewShape,
  wholeView,
} from './record-view.ts';
import { createRenderContext, requestedList, selectList } from './render.ts';

export type SingleOptions = ReadOptions & { readonly id: string };

/** Throws or rejects with 404. */
export function getRecord(
  dependencies: RecordDependencies,
  schema: CompiledSchema,
  options: SingleOptions,
  view: View,
): Promise<RecordText> {
  if (!isRecordId(schema.key, options.id)) throw recordErrors.RECORD_NOT_FOUND();
  const { database, plans } = dependencies;
  if (isGathered(dependencies, schema, view))
    return readOf(
      schema,
      options,
    )({ database, plans, options }).then(
      (row) => {
        if (row) chargeJson([row]);
        return found(row);
      },
      (error: unknown) => {
        throw readError(schema, error);
      },
    );
  const statement = getStatement(plans, schema, options, view);
  return runRead<RecordRow>(dependencies, schema, statement).then(([row]) => found(row));
}

function found(row: RecordRow | undefined): RecordText {
  if (!row) throw recordErrors.RECORD_NOT_FOUND();
  return requireWholeRecord(row);
}

/* What everybody sees of a record is the same statement for all. */

/** Records that one statement reads. */
export const MAX_GATHERED = 8;
/** Of each schema: clients ask for any fields. */
const MAX_SHAPES = 100;

export interface SingleQuestion {
  readonly database: Database;
  readonly plans: PlanCache;
  readonly options: SingleOptions;
}

const isGathered = (
  { database, limitMs }: RecordDependencies,
  { mapping }: CompiledSchema,
  view: View,
): boolean => view === wholeView && !mapping && limitMs === undefined && !database.inTransaction();

/** What is made once for the reads of a schema that ask for the same fields. */
export function madeForFields<T>(
  make: (schema: CompiledSchema) => T,
): (schema: CompiledSchema, options: ReadOptions) => T {
  const made = new WeakMap<CompiledSchema, Map<string, T>>();
  return (schema, options) => {
    let ofSchema = made.get(schema);
    if (!ofSchema) {
      ofSchema = new Map();
      made.set(schema, ofSchema);
    }
    const key = partOf(options);
    let read = ofSchema.get(key);
    if (!read) {
      if (ofSchema.size >= MAX_SHAPES) ofSchema.clear();
      read = make(schema);
      ofSchema.set(key, read);
    }
    return read;
  };
}

interface NumberedRow extends RecordRow {
  /** Of the question, from 1; absent where there is one. */
  readonly n?: number | string;
}

const readOf = madeForFields((schema) =>
  createGatheredRead<SingleQuestion, RecordRow | undefined>({
    max: MAX_GATHERED,
    isLike: (first, other) => first.database === other.database && !first.database.isTraced,
    async read(questions) {
      const { database, plans, options } = questions[0];
      const ids = questions.map((question) => question.options.id);
      const statement =
        ids.length === 1
          ? getStatement(plans, schema, options, wholeView)
          : getManyStatement(plans, schema, options, ids);
      const { rows } = await database.query<NumberedRow>({ ...statement, gathered: true });
      if (ids.length === 1) return [rows[0]];
      const byNumber: (RecordRow | undefined)[] = ids.map(() => undefined);
      for (const { n, ...row } of rows) byNumber[Number(n) - 1] = row;
      return byNumber;
    },
  }),
);

/* Statements. */

/** The part of the shape of a statement that fields decide. */
export const partOf = ({ only, exactly }: ReadOptions): string =>
  exactly && only ? `get{${requestedKey(only)}}` : 'get';

function getStatement(
  plans: PlanCache,
  schema: CompiledSchema,
  options: SingleOptions,
  view: View,
): Statement {
  const part = partOf(options);
  return plans.statement(
    {
      schema,
      shape: view === wholeView ? part : `${part}|${viewShape(view)}`,
      values: [options.id],
      dynamic: isDynamic(view),
      identity: identityOf(view),
      class: classOf(view),
    },
    (parameters) => {
      const where = `${idTest(schema, 't0', '$1')}${restriction(view.predicate, 't0', parameters, 'row')}`;
      const text = recordText(schema, options, { view, parameters, where });
      if (view.populate.size === 0) return text;
      // A record by itself has the size of a request; what its relations lead to may have any. The offset keeps it from being made twice.
      return `select r.id, r.version, ${boundedText('r.json')} as json from (${text} offset 0) r`;
    },
  );
}

/** The same of several, with their numbers. */
const getManyStatement = (
  plans: PlanCache,
  schema: CompiledSchema,
  options: ReadOptions,
  ids: readonly string[],
): Statement =>
  plans.statement(
    {
      schema,
      shape: `many ${partOf(options)}`,
      values: [`{${ids.join(',')}}`],
      dynamic: false,
      class: classOf(wholeView),
    },
    (parameters) => {
      const where = idTest(schema, 't0', 'q.id');
      const text = recordText(schema, options, { view: wholeView, parameters, where });
      return `select r.*, q.n from unnest((select $1::uuid[])::uuid[]) with ordinality q(id, n) cross join lateral (${text} offset 0) r`;
    },
  );

interface RecordTextParts {
  readonly view: View;
  readonly parameters: Parameters;
  readonly where: string;
}

export function recordText(
  schema: CompiledSchema,
  { only, exactly }: ReadOptions,
  { view, parameters, where }: RecordTextParts,
): string {
  const context = createRenderContext(parameters, view.conditions);
  if (!exactly || !only) {
    const list = selectList(schema, 't0', view.populate, context);
    return `select ${recordColumns(schema)} from (select ${list} from ${schema.rows} t0 where ${where}) x`;
  }
  const list = requestedList(schema, { alias: 't0', only }, view.populate, context);
  return `select t0."_id" as id, t0."__v" as version, (select row_to_json(x.*) from (select ${list}) x)::text as json from ${schema.rows} t0 where ${where}`;
}
