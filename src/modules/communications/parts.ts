/** The services of this module, as its operations and jobs use them. */
import type { Kernel } from '../../host/kernel.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import type { CommunicationsConfig } from './config.ts';
import { createBroadcasts } from './services/broadcasts.ts';
import { createChainDefinitions } from './services/chain-definitions.ts';
import { createChains } from './services/chains.ts';
import { createComposer } from './services/composer.ts';
import { createDelivery } from './services/delivery.ts';
import { createDevices } from './services/devices.ts';
import { createDigests } from './services/digests.ts';
import type { MailFiles } from './services/email/mail.ts';
import { createProviderTemplates } from './services/email/provider-templates.ts';
import { createMailTransport } from './services/email/transports.ts';
import { createExternalTemplates } from './services/external-templates.ts';
import { createFeedback } from './services/feedback/feedback.ts';
import { createInbox } from './services/inbox.ts';
import { createMessages } from './services/messages.ts';
import { createNotifier } from './services/notifier.ts';
import { createOutbox } from './services/outbox.ts';
import { createPreferences } from './services/preferences.ts';
import { createPace } from './services/providers/in-order.ts';
import { createPushTransport } from './services/push/delivery.ts';
import { createRelevance } from './services/relevance.ts';
import { createSmsTransport } from './services/sms/providers.ts';
import { createSuppressions, createUnsubscribe } from './services/suppressions.ts';
import { takeUpJob } from './services/take-up.ts';
import { createPartials } from './services/template-language.ts';
import { createTemplates } from './services/templates.ts';
import { createUnifiedTemplates } from './services/unified-templates.ts';

interface Foundation {
  readonly kernel: Kernel;
  readonly config: () => CommunicationsConfig;
  /** Public address of the client surface. */
  readonly clientUrl: () => string;
  readonly log: Logger;
  /** Files of storage, while it is on. */
  readonly files: MailFiles;
}

export type Parts = ReturnType<typeof createParts>;

export function createParts(foundation: Foundation) {
  const { kernel, config, log, files } = foundation;
  const sending = createSending(foundation, (chainId) => chains.nudge(chainId));
  const { messages, templates, preferences, delivery } = sending;
  const inbox = createInbox({ ...kernel, moved: (chainId) => chains.nudge(chainId) });
  const unified = createUnifiedTemplates(kernel);
  const composer = createComposer({
    ...kernel,
    messages,
    templates,
    unified,
    inbox,
    preferences,
    config,
  });
  const chains = createChains({ ...kernel, composer, deliverNow: delivery.deliverNow, log });
  const digests = createDigests({ ...kernel, composer });
  const broadcasts = createBroadcasts({ ...kernel, composer, messages, inbox, preferences });
  const notifier = createNotifier({
    ...kernel,
    messages,
    broadcasts,
    preferences,
    inbox,
    config,
    deliverNow: delivery.deliverNow,
  });
  const external = createExternalTemplates({
    ...kernel,
    templates,
    provider: createProviderTemplates(config),
  });
  return {
    ...sending,
    config,
    files,
    inbox,
    unified,
    composer,
    chains,
    chainDefinitions: createChainDefinitions(kernel),
    digests,
    notifier,
    broadcasts,
    partials: createPartials(kernel, templates.requireOwnersOfPart),
    suppressions: createSuppressions(kernel),
    devices: createDevices({ ...kernel, config }),
    outbox: createOutbox({ ...delivery, ...kernel, messages, templates }),
    external,
    jobs: [
      ...delivery.jobs,
      ...sending.feedback.jobs,
      broadcasts.job,
      chains.job,
      digests.job,
      takeUpJob(kernel, { broadcasts, chains, digests }),
      external.job,
    ],
  };
}

/** What stores messages and brings them out. `moved`: something happened to the message of a chain. */
function createSending(
  { kernel, config, clientUrl, log, files }: Foundation,
  moved: (chainId: string) => Promise<void>,
) {
  const templates = createTemplates(kernel);
  const feedback = createFeedback({
    ...kernel,
    config,
    clientUrl,
    onReports: async (applied) => {
      for (const id of new Set(applied.flatMap(({ chainId }) => chainId ?? []))) await moved(id);
    },
  });
  const pace = createPace({ ...kernel, config });
  const transports = {
    email: createMailTransport(config, { pace, files }),
    sms: createSmsTransport(config, feedback.smsReportAddress, pace),
    push: createPushTransport(config, kernel),
  };
  const preferences = createPreferences({ ...kernel, config });
  const unsubscribe = createUnsubscribe({ ...kernel, clientUrl });
  const messages = createMessages({
    ...kernel,
    templates,
    preferences,
    unsubscribe,
    config,
    log,
  });
  const relevance = createRelevance();
  const provided = { transports, pace, config, log, relevance };
  const delivery = createDelivery({ ...kernel, ...provided, onStep: moved });
  return {
    templates,
    feedback,
    transports,
    preferences,
    unsubscribe,
    messages,
    delivery,
    relevance,
  };
}
