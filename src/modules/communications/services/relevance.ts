/** Whether a message that waits is still to go out: asked of the module that wrote it, which alone knows. */
import type { Subject } from '../broadcast-queries.ts';

/** Those of these users whom a message about that still concerns. */
export type RelevanceQuestion = (
  about: string,
  userIds: readonly string[],
) => Promise<ReadonlySet<string>>;

export interface Relevance {
  /** How to ask a module, also once it is switched off. What a module wrote that was not there since the start goes out. */
  register(module: string, question: RelevanceQuestion): void;
  /** Those that do not go out, by id. One question for all that are about the same. */
  overtaken(
    messages: readonly (Subject & { readonly id: string; readonly userId: string })[],
  ): Promise<readonly string[]>;
}

export function createRelevance(): Relevance {
  const questions = new Map<string, RelevanceQuestion>();
  return {
    register: (module, question) => void questions.set(module, question),
    async overtaken(messages) {
      const bySubject = Map.groupBy(messages, ({ module, about }) => `${module} ${about}`);
      const ended = await Promise.all(
        [...bySubject.values()].map(async (some) => {
          const { module = '', about = '' } = some[0] ?? {};
          const concerned = await questions.get(module)?.(
            about,
            some.map(({ userId }) => userId),
          );
          return some.filter(({ userId }) => concerned?.has(userId) === false);
        }),
      );
      return ended.flat().map(({ id }) => id);
    },
  };
}
