/** Places of faults, as requests name them: the engine and the tuples have one set of names, the routes have theirs. */
import { relocated } from '../../../kernel/errors.ts';

export type Rename = (path: string) => string;

/** Does the work; what it refuses is told by the names that the request has for it. */
export async function asRequested<T>(rename: Rename, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw relocated(error, rename);
  }
}

/** One question: what the engine calls an action is a permission on the wire. */
export const ofQuestion: Rename = (path) => (path === 'action' ? 'permission' : path);

/** A list of resources: it has no resource, but the type of one. */
export const ofResourceList: Rename = (path) => (path === 'resource' ? 'resourceType' : ofQuestion(path));

/** A batch: the engine counts the questions where there are several. */
export const ofBatch: Rename = (path) =>
  path.replace(/^(?:(\d+)\.)?(subject|action|resource)$/, (_, i = '0', part) => `checks.${i}.${ofQuestion(part)}`);

/** Several relations at once: a single one is counted as well. */
export const ofMany: Rename = (path) => (path === 'resource' ? 'resources.0' : path);
