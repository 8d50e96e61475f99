/** One of the operations of `POST /database/batch`, as its route has checked it. */
export interface BatchOperation {
  readonly op: 'create' | 'read' | 'update' | 'replace' | 'delete';
  readonly schema: string;
  /** Or `{"$ref": "<operation>.<path>"}`. */
  readonly id?: unknown;
  readonly data?: Readonly<Record<string, unknown>>;
  /** Name by which later operations refer to the result; its place in the list works too. */
  readonly ref?: string;
  readonly scope?: string;
  /** The version that the caller saw; another one stored is 412. */
  readonly version?: number;
}
