/** What the services of this module share. */
import type { Kernel } from '../../../host/kernel.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { EmbeddingsConfig } from '../config.ts';
import type { FileTexts } from '../files/file-texts.ts';
import type { EmbeddingMeasures } from '../measure.ts';
import type { ModelSource } from '../models/model-source.ts';

/** Removes what no configuration has any more (jobs.ts). */
export const purgeJobName = 'embeddings.purge';

export interface EmbeddingParts
  extends Pick<Kernel, 'audit' | 'database' | 'events' | 'jobs' | 'records' | 'schemas'> {
  readonly config: () => EmbeddingsConfig;
  readonly models: ModelSource;
  readonly files: FileTexts;
  readonly measures: EmbeddingMeasures;
  readonly log: Logger;
}
