/**
 * Work on the way of every request answers without a promise where nothing has to be waited for: a promise costs the
 * request another turn of the queue, and memory that is thrown away. These put such work together; whatever they are
 * given may throw, or answer a promise that rejects.
 */
export type MaybePromise<T> = T | Promise<T>;

/** What `use` makes of the value, at once where the value is there. */
export function andThen<T, R>(
  value: MaybePromise<T>,
  use: (value: T) => MaybePromise<R>,
): MaybePromise<R> {
  return value instanceof Promise ? value.then(use) : use(value);
}

/** Runs `end` after the work, however that ends: what `finally` does, by three promises fewer. */
export function endedBy<T>(work: () => MaybePromise<T>, end: () => void): MaybePromise<T> {
  let result: MaybePromise<T>;
  try {
    result = work();
  } catch (error) {
    end();
    throw error;
  }
  if (result instanceof Promise)
    return result.then(
      (value) => {
        end();
        return value;
      },
      (error: unknown) => {
        end();
        throw error;
      },
    );
  end();
  return result;
}

/** What `use` makes of the work's value, or `failed` of its error. What these throw goes to whoever asked. */
export function concluded<T, R>(
  work: () => MaybePromise<T>,
  use: (value: T) => MaybePromise<R>,
  failed: (error: unknown) => R,
): MaybePromise<R> {
  let result: MaybePromise<T>;
  try {
    result = work();
  } catch (error) {
    return failed(error);
  }
  return result instanceof Promise ? result.then(use, failed) : use(result);
}
