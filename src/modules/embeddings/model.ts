/** What makes vectors of texts, whoever runs it. */

/**
 * - `unavailable`, `timeout`, `throttled`: later it may go well
 * - `auth`: the provider refuses our credentials
 * - `refused`: this text is not taken, and never will be
 * - `wrong`: what came back are not vectors of the expected length
 * - `budget`: the tokens of the day are used up
 * - `busy`: we may not ask it as fast
 */
export type ModelFailure =
  | 'unavailable'
  | 'timeout'
  | 'throttled'
  | 'auth'
  | 'refused'
  | 'wrong'
  | 'budget'
  | 'busy';

export class ModelError extends Error {
  readonly failure: ModelFailure;
  /** Seconds that the provider asks for. */
  readonly retryAfter: number | undefined;

  constructor(failure: ModelFailure, message: string, retryAfter?: number) {
    super(message);
    this.name = 'ModelError';
    this.failure = failure;
    this.retryAfter = retryAfter;
  }
}

/** Who waits for the vectors: somebody who searches goes first. */
export type Purpose = 'query' | 'passage';

export interface Model {
  /** UTF-16 units of one passage; longer texts are cut. */
  readonly passageLength: number;
  /** Milliseconds of `performance.now()` before which it is not worth trying; 0 when it works. */
  pausedUntil(): number;
  /** One vector for each text, in order. Throws `ModelError`. */
  embed(texts: readonly string[], purpose: Purpose): Promise<Embedded>;
}

export interface Embedded {
  readonly vectors: readonly Float32Array[];
  /** As the provider counts them; 0 for a model of this machine. */
  readonly tokens: number;
}

/** What a generation of vectors is made with. */
export interface ModelChoice {
  readonly provider: string;
  readonly model: string;
  readonly dimensions: number;
  readonly similarity: Similarity;
  /** What the model is told before a text that is searched for, and before a text of a record. */
  readonly queryPrefix: string;
  readonly passagePrefix: string;
  /** It is asked for vectors of this length. */
  readonly sendDimensions: boolean;
}

/** For models that are told nothing. */
export const withoutInstructions = {
  queryPrefix: '',
  passagePrefix: '',
  sendDimensions: false,
} as const;

export type Similarity = 'cosine' | 'euclidean' | 'dotProduct';

export const builtInProvider = 'built-in';
export const openaiProvider = 'openai-compatible';
/** No vectors: words alone are searched. */
export const noProvider = 'none';
export const providers = [builtInProvider, openaiProvider, noProvider] as const;
export type Provider = (typeof providers)[number];

export const builtInModel = 'universal-sentence-encoder-lite-en';
export const builtInDimensions = 512;

/** Gives vectors length 1, so that their dot product is the cosine. One without a direction stays as it is. */
export function normalise(vectors: readonly Float32Array[]): void {
  for (const vector of vectors) {
    let sum = 0;
    for (let i = 0; i < vector.length; i += 1) sum += (vector[i] as number) ** 2;
    const length = Math.sqrt(sum);
    if (length === 0) continue;
    for (let i = 0; i < vector.length; i += 1) vector[i] = (vector[i] as number) / length;
  }
}
