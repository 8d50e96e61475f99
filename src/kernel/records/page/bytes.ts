/**
 * How large the answer to a list may become. The number of records is bounded, their size is up to whoever stored
 * them: without a second bound one list could take all the memory of this process (CWE-770, API4:2023).
 */
import { invalid, type PenstockError } from '../../errors.ts';

/**
 * Bytes of the records of one answer, and the most that the account of a request may be set to: such a text stands several
 * times in memory on its way out.
 */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const MEGABYTES = MAX_ANSWER_BYTES / 1024 / 1024;

/** Stands in the place of records that are too large together. No JSON begins so. */
const tooLarge = '!';

/** The text `page` of a sub-select, or the mark. The sub-select keeps it from being made twice. */
export const boundedText = (page: string): string =>
  `case when octet_length(${page}) > ${MAX_ANSWER_BYTES} then '${tooLarge}' else ${page} end`;

/** Throws 400 for a list whose records were left out because they are too large together. */
export function requireWhole(json: string): string {
  if (json.startsWith(tooLarge, json.indexOf('[') + 1)) throw tooMany();
  return json;
}

/** The same for a record with what its relations lead to. Throws 400. */
export function requireWholeRecord<R extends { readonly json: string }>(row: R): R {
  if (row.json === tooLarge) throw invalid('populate', 'bytes', `the record is larger than ${MEGABYTES} MB with all of these relations`);
  return row;
}

export const tooMany = (): PenstockError =>
  invalid('limit', 'bytes', `the records are larger than ${MEGABYTES} MB together: ask for fewer of them`);
