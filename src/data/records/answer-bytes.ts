/**
 * How large an answer may become. The number of records is bounded, their size is up to whoever stored
 * them: without a second bound one list could take all the memory of this process (CWE-770, API4:2023).
 */
import { invalid, PenstockError } from '../../kernel/errors.ts';

/**
 * Bytes of the records of one answer, and the most that the account of a request may be set to: such a text stands several
 * times in memory on its way out.
 */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const MEGABYTES = MAX_ANSWER_BYTES / 1024 / 1024;

/** Stands in the place of records that are too large together. No JSON begins so. */
const tooLarge = '!';

/** The text `json` of a sub-select, or the mark. The sub-select keeps it from being made twice. */
export const boundedText = (json: string): string =>
  `case when octet_length(${json}) > ${MAX_ANSWER_BYTES} then '${tooLarge}' else ${json} end`;

/**
 * Each text `t` of a select, with what it and those before it have together, in bytes (`b`). One after the other is made and
 * measured, so that PostgreSQL holds no more of them at once than one answer. The offset keeps a text from being made twice.
 */
const measured = (texts: string, columns = 'y.t'): string =>
  `(select ${columns}, sum(pg_column_size(y.t)) over (rows unbounded preceding) as b from (${texts} offset 0) y) w`;

/** Records of which each has at most the size of a request: so many are not worth the measuring of each, a tenth of a page. */
const FEW = 100;

export interface TextsOfPage {
  /** At most so many. */
  readonly limit: number;
  /** What relations lead to stands in them: they may have any size. */
  readonly related: boolean;
}

/**
 * A select of one row from one of texts `t` in order: `page` has them with commas between (null without any), or the mark;
 * `n` says how many they are.
 */
export const boundedPage = (texts: string, { limit, related }: TextsOfPage): string =>
  limit <= FEW && !related
    ? `select ${boundedText('w.page')} as page, w.n from (select string_agg(y.t, ',') as page, count(*) as n from (${texts}) y) w`
    : measuredPage(texts);

const measuredPage = (texts: string): string =>
  `select case when max(w.b) > ${MAX_ANSWER_BYTES} then '${tooLarge}' else string_agg(case when w.b <= ${MAX_ANSWER_BYTES} then w.t end, ',') end as page, count(*) as n from ${measured(texts)}`;

/**
 * The JSON `t` of a select in order as one JSON list, within an answer. Where they are too large together, a text is that is
 * too large by itself, so that whatever it becomes a part of is refused.
 */
export const boundedList = (records: string): string =>
  `select case when max(w.b) > ${MAX_ANSWER_BYTES} then to_json(repeat('${tooLarge}', ${MAX_ANSWER_BYTES})) else coalesce(json_agg(case when w.b <= ${MAX_ANSWER_BYTES} then w.t end), '[]'::json) end from ${measured(records)}`;

/** Each text `t` of a select in order as `json`, beside its other columns (`y`); the mark where too much stands before it. */
export const boundedRows = (columns: string, rows: string): string =>
  `select ${columns}, case when w.b <= ${MAX_ANSWER_BYTES} then w.t else '${tooLarge}' end as json from ${measured(rows, 'y.*')}`;

/** As a statement that fails because of its answer names it. */
const refusedText = 'too large for one answer';

/**
 * The text of the rows `y`; the statement fails where `bytes` are more than one answer holds. A write that is done could not
 * be refused any more, but a statement that fails is undone. A text that is no number is read as one, only where there is
 * too much; it begins with a value of the row, or it would be read before.
 */
export const orRefused = (json: string, bytes: string): string =>
  `case when ${bytes} > ${MAX_ANSWER_BYTES} then (y.id::text || ' ${refusedText}')::integer::text else ${json} end`;

/** The 400 for a write that failed because of that, or nothing. */
export const refusedAnswer = (error: unknown): PenstockError | undefined =>
  error instanceof Error && error.message.includes(refusedText)
    ? invalid(
        'populate',
        'bytes',
        `what would be answered is larger than ${MEGABYTES} MB: change fewer records at once, or populate less`,
      )
    : undefined;

/** Throws 400 for a list whose records were left out because they are too large together. */
export function requireWhole(json: string): string {
  if (json.startsWith(tooLarge, json.indexOf('[') + 1)) throw tooMany();
  return json;
}

/** The same for rows with a record each. Throws 400. */
export function requireWholeRows<R extends { readonly json: string }>(
  rows: readonly R[],
): readonly R[] {
  if (rows.some(({ json }) => json === tooLarge)) throw tooMany();
  return rows;
}

/** The same for a record with what its relations lead to. Throws 400. */
export function requireWholeRecord<R extends { readonly json: string }>(row: R): R {
  if (row.json === tooLarge)
    throw invalid(
      'populate',
      'bytes',
      `the record is larger than ${MEGABYTES} MB with all of these relations`,
    );
  return row;
}

export const tooMany = (): PenstockError =>
  invalid(
    'limit',
    'bytes',
    `the records are larger than ${MEGABYTES} MB together: ask for fewer of them`,
  );

/** Whether this says that records are too large together: fewer of them may be read. */
export const isTooLargeTogether = (error: unknown): boolean =>
  error instanceof PenstockError && error.errors?.[0]?.rule === 'bytes';
