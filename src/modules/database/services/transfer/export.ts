/** Rows of a schema as CSV or JSON lines, piece by piece. */

import { parseFilter } from '../../../../data/conditions/parse.ts';
import { recordFields } from '../../../../data/records/read/selection.ts';
import type { RecordStore } from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import { createCsvWriter } from './csv.ts';
import type { Delimiter, Format } from './rows.ts';

export interface ExportRequest {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly format: Format;
  readonly delimiter: Delimiter;
  readonly escapeFormulas: boolean;
  /** In the operator language of the admin queries. */
  readonly query: unknown;
  readonly select?: readonly string[] | undefined;
  readonly sort?: readonly string[] | undefined;
  readonly signal: AbortSignal;
}

export async function* exportRows(
  records: RecordStore,
  request: ExportRequest,
): AsyncGenerator<string> {
  const { caller, schema, select, sort, signal } = request;
  const batches = records.stream(caller, schema.name, {
    filter: parseFilter(request.query),
    signal,
    ...(select && { select }),
    ...(sort && { sort }),
  });
  const { head, lines } = writerOf(request);
  let pending = head;
  for await (const batch of batches) {
    yield pending + lines(batch);
    pending = '';
  }
  if (pending !== '') yield pending;
}

/** Columns of a CSV file stand in the order in which they were asked for. */
function writerOf({ format, schema, delimiter, escapeFormulas, select }: ExportRequest) {
  if (format === 'jsonl')
    return {
      head: '',
      lines: (records: readonly string[]) => records.map((json) => `${json}\n`).join(''),
    };
  const { header, lines } = createCsvWriter(schema, {
    columns: select ?? recordFields(schema),
    delimiter,
    escapeFormulas,
  });
  return { head: header, lines };
}
