/** The model of a generation. Each is made when it is first asked for, and kept. */
import { LRUCache } from 'lru-cache';
import type { Database } from '../../../kernel/database/database.ts';
import type { EmbeddingsConfig } from '../config.ts';
import type { EmbeddingMeasures } from '../measure.ts';
import {
  builtInProvider,
  type Model,
  type ModelChoice,
  ModelError,
  normalise,
  openaiProvider,
} from '../model.ts';
import { addUsage, tokensOfToday } from '../queries/runs.ts';
import { createBuiltInModel } from './built-in.ts';
import { createRemoteModel, type Spending } from './openai-compatible.ts';

export interface ModelSource {
  /** Nothing for generations without vectors. */
  of(choice: ModelChoice): Model | undefined;
  /** The vector of a text that somebody (`asker`) searches for; the same text is asked for once in a while only. */
  query(
    choice: ModelChoice,
    text: string,
    asker: string,
  ): Promise<{
    readonly vector: Float32Array;
    readonly cached: boolean;
    /** What it has cost now. */
    readonly tokens: number;
  }>;
  /** Forgets what rests on a former configuration. */
  renew(): void;
  close(): Promise<void>;
}

interface ModelSourceParts {
  readonly config: () => EmbeddingsConfig;
  readonly database: Database;
  readonly measures: EmbeddingMeasures;
}

/** Vectors of texts that were searched for. */
const MAX_QUERIES = 1_000;
const MAX_MODELS = 50;

export function createModelSource(parts: ModelSourceParts): ModelSource {
  const builtIn = createBuiltInModel();
  const remote = new LRUCache<string, Model>({ max: MAX_MODELS });
  const queries = new LRUCache<string, Float32Array>({ max: MAX_QUERIES });
  const spending = createSpending(parts, openaiProvider);

  const of = (choice: ModelChoice): Model | undefined => {
    if (choice.provider === builtInProvider) return timed(parts, choice, builtIn);
    if (choice.provider !== openaiProvider) return undefined;
    const { model, dimensions, queryPrefix, passagePrefix, sendDimensions } = choice;
    const key = JSON.stringify([model, dimensions, queryPrefix, passagePrefix, sendDimensions]);
    const known = remote.get(key) ?? createRemoteModel({ ...parts, spending }, choice);
    remote.set(key, known);
    return timed(parts, choice, known);
  };

  return {
    of,
    async query(choice, text, asker) {
      const { queryTtlMs: ttl, shareQueries } = parts.config().cache;
      const key = JSON.stringify([
        shareQueries ? '' : asker,
        choice.provider,
        choice.model,
        choice.dimensions,
        choice.similarity,
        choice.queryPrefix,
        choice.sendDimensions,
        text,
      ]);
      const known = queries.get(key);
      if (known) return { vector: known, cached: true, tokens: 0 };
      const { vectors: [vector] = [], tokens = 0 } =
        (await of(choice)?.embed([text], 'query')) ?? {};
      if (!vector) throw new ModelError('wrong', 'The model answered nothing');
      if (ttl > 0) queries.set(key, vector, { ttl });
      return { vector, cached: false, tokens };
    },
    renew() {
      remote.clear();
      queries.clear();
    },
    close: () => builtIn.close(),
  };
}

/** Vectors as they are compared: of length 1 where only their direction counts. */
function timed({ measures }: ModelSourceParts, choice: ModelChoice, model: Model): Model {
  return {
    ...model,
    async embed(texts, purpose) {
      const started = performance.now();
      const { vectors, tokens } = await model.embed(texts, purpose);
      measures.provider.observe(
        { provider: choice.provider },
        (performance.now() - started) / 1000,
      );
      // They are ours: every call makes its own.
      if (choice.similarity === 'cosine') normalise(vectors);
      return { vectors, tokens };
    },
  };
}

/** Tokens of a provider in a day are counted in the database, for all nodes. */
function createSpending(
  { config, database, measures }: ModelSourceParts,
  provider: string,
): Spending {
  return {
    async require() {
      const { dailyTokens } = config().budget;
      if (dailyTokens === 0 || (await tokensOfToday(database, provider)) < dailyTokens) return;
      const midnight = new Date().setUTCHours(24, 0, 0, 0);
      const seconds = Math.ceil((midnight - Date.now()) / 1000);
      throw new ModelError('budget', 'The token budget of the day is used up', seconds);
    },
    async add(usage) {
      measures.tokens.inc({ provider }, usage.tokens);
      await addUsage(database, provider, usage);
    },
  };
}
