/** What is about types, by module and type, as documents and answers have it. */

export interface OfType<T> {
  readonly module: string;
  readonly type: string;
  readonly value: T;
}

export const nested = <T>(all: readonly OfType<T>[]): Readonly<Record<string, Readonly<Record<string, T>>>> =>
  Object.fromEntries(
    [...Map.groupBy(all, ({ module }) => module)].map(([module, of]) => [
      module,
      Object.fromEntries(of.map(({ type, value }) => [type, value] as const)),
    ]),
  );
