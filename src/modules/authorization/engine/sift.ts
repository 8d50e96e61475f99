/** Evaluates many candidates exactly, in chunks that share a load. */
import { PenstockError } from '../../../kernel/errors.ts';
import { type Circumstances, evaluateAll, type Resolved, type World } from './ask.ts';
import type { Bounds } from './bounds.ts';
import { engineErrors } from './errors.ts';

const CHUNK = 200;

/** Bounds of each question, in order, without the rule of the object itself (`isSelf`). Throws `DEPTH_LIMIT` where an answer hangs on the depth limit. */
export async function sift(world: World, questions: readonly Resolved[], circumstances: Circumstances): Promise<readonly Bounds[]> {
  const found: Bounds[] = [];
  for (let start = 0; start < questions.length; start += CHUNK) {
    found.push(...(await siftChunk(world, questions.slice(start, start + CHUNK), circumstances)));
  }
  return found;
}

async function siftChunk(world: World, questions: readonly Resolved[], circumstances: Circumstances): Promise<readonly Bounds[]> {
  try {
    const verdicts = await evaluateAll(world, questions, circumstances);
    return verdicts.map((verdict) => {
      if (verdict.tooDeep && verdict.sure !== verdict.possible) throw engineErrors.DEPTH_LIMIT();
      return verdict;
    });
  } catch (error) {
    // Too much for one load of many may still be little for each.
    const divisible = error instanceof PenstockError && error.code === engineErrors.BREADTH_LIMIT.code && questions.length > 1;
    if (!divisible) throw error;
    const half = questions.length >> 1;
    const first = await siftChunk(world, questions.slice(0, half), circumstances);
    return [...first, ...(await siftChunk(world, questions.slice(half), circumstances))];
  }
}
