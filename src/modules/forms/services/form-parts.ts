/** What the services of this module share. */
import type { Kernel } from '../../../host/kernel.ts';
import type { OptionalModule } from '../../../host/module.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { Messages } from '../../communications/index.ts';
import type { Captcha } from '../../router/index.ts';
import type { StorageService } from '../../storage/index.ts';
import type { FormsConfig } from '../config.ts';
import type { KnownForms } from './known-forms.ts';
import type { CountOutcome } from './measure.ts';

export interface FormParts
  extends Pick<Kernel, 'database' | 'events' | 'jobs' | 'durableLimits' | 'secrets'> {
  readonly config: () => FormsConfig;
  readonly known: KnownForms;
  readonly count: CountOutcome;
  readonly storage: OptionalModule<StorageService>;
  readonly messages: Messages;
  readonly captcha: Captcha;
  /** Public address of the client surface. */
  readonly publicUrl: () => string;
  readonly log: Logger;
}
