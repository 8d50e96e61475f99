/** The two written forms of rows. */
export const formats = ['csv', 'jsonl'] as const;
export type Format = (typeof formats)[number];

export const contentTypes = { csv: 'text/csv; charset=utf-8', jsonl: 'application/jsonl; charset=utf-8' } as const;

/** Media types that uploads may have, and the form that each says it is; `undefined`: it does not say. */
export const uploadTypes: ReadonlyMap<string, Format | undefined> = new Map([
  ['text/csv', 'csv'],
  ['application/jsonl', 'jsonl'],
  ['application/x-ndjson', 'jsonl'],
  ['application/octet-stream', undefined],
]);

export const delimiters = { comma: ',', semicolon: ';', tab: '\t' } as const;
export type Delimiter = keyof typeof delimiters;

/** Bytes of one row. */
export const MAX_ROW_BYTES = 8_388_608;
