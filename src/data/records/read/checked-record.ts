/**
 * Reading one record with row authorization. The statement loads what is written about the record as well, which mostly
 * says by itself who may read it. So it is the same for many readers, and those of one turn of the event loop share it
 * (docs/decisions/549-records-are-read-with-what-decides-about-them.md).
 */
import type { Caller } from '../../../kernel/caller.ts';
import type { Statement } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { createGatheredRead } from '../../../kernel/database/gathered-read.ts';
import { andThen, type MaybePromise } from '../../../kernel/maybe-promise.ts';
import type { RecordCheck, SqlRows } from '../../../kernel/record-check.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { canonicalId, isRecordId } from '../../schema/language/record-key.ts';
import { engineAlone } from '../access/operation-access.ts';
import { requireWholeRecord } from '../answer-bytes.ts';
import { recordErrors } from '../errors.ts';
import type { Parameters } from '../sql/prepared-statements.ts';
import { idTest } from '../sql/row-id.ts';
import type { RecordText } from '../store.ts';
import { readOptimistically } from './optimistic-read.ts';
import {
  chargeJson,
  isPlain,
  type RecordDependencies,
  type RecordRow,
  readError,
  type ViewOptions,
  viewOf,
  wholeView,
} from './record-view.ts';
import {
  getRecord,
  MAX_GATHERED,
  madeForFields,
  partOf,
  recordText,
  type SingleOptions,
  type SingleQuestion,
} from './single-record.ts';

interface RestrictedRead {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly record: SingleOptions;
  readonly asked: ViewOptions;
}

/** Reads a record that not everybody may read, or not all of it. Throws or rejects with 404. */
export function readRestricted(
  dependencies: RecordDependencies,
  request: RestrictedRead,
): Promise<RecordText> {
  const { caller, schema, record, asked } = request;
  const read = (): Promise<RecordText> =>
    readOptimistically(dependencies, async (given) => {
      const view = viewOf(given, caller, schema, asked);
      return getRecord(given, schema, record, view instanceof Promise ? await view : view);
    });
  const checked = readChecked(dependencies, request);
  return checked instanceof Promise ? checked.then((found) => found ?? read()) : read();
}

const nothingOfIt = { only: new Map([['_id', new Map()]]), exactly: true };

/** Whether a user may read a record that is there; false where that is not known either. */
export async function isSurelyReadable(
  dependencies: RecordDependencies,
  caller: Caller,
  schema: CompiledSchema,
  id: string,
): Promise<boolean> {
  const record = { ...nothingOfIt, id };
  try {
    return (await readChecked(dependencies, { caller, schema, record, asked: {} })) !== undefined;
  } catch (error) {
    if (codeOf(error) === recordErrors.RECORD_NOT_FOUND.code) return false;
    throw error;
  }
}

/** By what is written about the record; `undefined` where that does not say it. */
function readChecked(
  { database, plans, permissions, limitMs }: RecordDependencies,
  { caller, schema, record, asked }: RestrictedRead,
): MaybePromise<RecordText | undefined> {
  if (schema.mapping || limitMs !== undefined || database.inTransaction()) return undefined;
  const { scope, offered, action } = asked;
  const isRead = scope === undefined && offered !== 'content' && action === undefined;
  if (!isRead || !isPlain(caller, schema, asked)) return undefined;
  const engine = engineAlone(permissions, caller, schema);
  if (!engine?.recordCheck) return undefined;
  if (!isRecordId(schema.key, record.id)) throw recordErrors.RECORD_NOT_FOUND();
  const id = canonicalId(schema.key, record.id);
  return andThen(engine.recordCheck(caller, 'read', schema.name, id), (check) => {
    if (!check) return undefined;
    const read = readOf(schema, record);
    return read({ database, plans, options: { ...record, id }, check }).then(
      allowedRecord,
      (error: unknown) => {
        throw readError(schema, error);
      },
    );
  });
}

interface CheckedAnswer {
  /** Absent where there is no such record. */
  readonly row?: RecordRow;
  /** Absent where what is written about it does not say it. */
  readonly allowed?: boolean | undefined;
}

function allowedRecord({ row, allowed }: CheckedAnswer): RecordText | undefined {
  if (!row || allowed === false) throw recordErrors.RECORD_NOT_FOUND();
  if (!allowed) return undefined;
  chargeJson([row]);
  return requireWholeRecord(row);
}

interface CheckedQuestion extends SingleQuestion {
  readonly check: RecordCheck;
}

const readOf = madeForFields((schema) =>
  createGatheredRead<CheckedQuestion, CheckedAnswer>({
    max: MAX_GATHERED,
    isLike: (first, other) =>
      first.database === other.database &&
      !first.database.isTraced &&
      isLike(first.check, other.check),
    async read(questions) {
      const [first] = questions;
      const statement = (questions.length === 1 ? oneStatement : manyStatement)(schema, questions);
      const { rows } = await first.database.query<FoundRow>({ ...statement, gathered: true });
      const byQuestion = Map.groupBy(rows, ({ n }) => Number(n ?? 1));
      return questions.map(({ check }, i) => answerOf(check, byQuestion.get(i + 1) ?? []));
    },
  }),
);

const isLike = (one: RecordCheck, other: RecordCheck): boolean =>
  one.kind === other.kind && one.values.every((value, i) => value === other.values[i]);

/** The record, or something that is written about it. */
interface FoundRow extends RecordRow {
  readonly isRecord: boolean;
  /** Of the question, from 1; absent where there is one. */
  readonly n?: number | string;
}

function answerOf(check: RecordCheck, rows: readonly FoundRow[]): CheckedAnswer {
  const row = rows.find(({ isRecord }) => isRecord);
  if (!row) return {};
  const written = rows.filter(({ isRecord }) => !isRecord);
  return { row, allowed: check.decide({ state: row, written }) };
}

/* Statements. */

type Questions = readonly [CheckedQuestion, ...CheckedQuestion[]];

/** The statement of one question takes less than that of many with one question in it. */
const oneStatement = (schema: CompiledSchema, [{ plans, options, check }]: Questions): Statement =>
  plans.statement(
    {
      schema,
      shape: `checked ${partOf(options)}|${check.kind.key}`,
      values: [options.id, ...check.values],
      dynamic: false,
      class: 'short',
    },
    (parameters) => checkedText(schema, { options, check, parameters }, '(select $1::uuid)', ''),
  );

const manyStatement = (schema: CompiledSchema, questions: Questions): Statement => {
  const [{ plans, options, check }] = questions;
  return plans.statement(
    {
      schema,
      shape: `checked many ${partOf(options)}|${check.kind.key}`,
      values: [`{${questions.map((one) => one.options.id).join(',')}}`, ...check.values],
      dynamic: false,
      class: 'short',
    },
    (parameters) =>
      checkedText(
        schema,
        { options, check, parameters },
        'q.id',
        'unnest((select $1::uuid[])::uuid[]) with ordinality q(id, n)',
      ),
  );
};

interface TextParts {
  readonly options: SingleOptions;
  readonly check: RecordCheck;
  readonly parameters: Parameters;
}

/** Records, and behind them what is written about each. `among`: the ids, of which the statement says the number. */
function checkedText(
  schema: CompiledSchema,
  { options, check, parameters }: TextParts,
  id: string,
  among: string,
): string {
  const values = check.values.map((_, i) => `$${i + 2}`);
  const { state, written } = check.kind.text({ id, values });
  const where = idTest(schema, 't0', id);
  const record = recordText(schema, options, { view: wholeView, parameters, where });
  const number = among && 'q.n, ';
  const each = (rows: string): string =>
    among ? `${among} cross join lateral (${rows} offset 0)` : `(${rows})`;
  const own = `r.id::text as id, r.version, r.json`;
  return `select ${number}true as "isRecord", ${own}, ${columnsOf('v', state)}, ${nullsOf(written)} from (${state.query}) v cross join ${each(record)} r
    union all select ${number}false, null, null, null, ${nullsOf(state)}, ${columnsOf('w', written)} from ${each(written.query)} w`;
}

const columnsOf = (alias: string, { columns }: SqlRows): string =>
  Object.keys(columns)
    .map((name) => `${alias}.${name}`)
    .join(', ');

const nullsOf = ({ columns }: SqlRows): string =>
  Object.entries(columns)
    .map(([name, type]) => `null::${type} as ${name}`)
    .join(', ');
