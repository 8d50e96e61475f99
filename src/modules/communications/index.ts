/** Communications: messages to people, by mail and text message. */
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import { router } from '../router/index.ts';
import { type CommunicationsConfig, communicationsConfig } from './config.ts';
import { migrations } from './migrations.ts';
import { deviceOperations } from './operations/devices.ts';
import { emailOperations } from './operations/email.ts';
import { externalTemplateOperations } from './operations/external-templates.ts';
import { formerConfigOperations, formerModules } from './operations/former-config.ts';
import { inboxOperations } from './operations/inbox.ts';
import { messageOperations } from './operations/messages.ts';
import { orchestrationOperations } from './operations/orchestration.ts';
import { partialOperations } from './operations/partials.ts';
import { preferenceOperations } from './operations/preferences.ts';
import { pushOperations } from './operations/push.ts';
import { recordOperations } from './operations/records.ts';
import { smsOperations } from './operations/sms.ts';
import { suppressionOperations } from './operations/suppressions.ts';
import { templateOperations } from './operations/templates.ts';
import { unifiedTemplateOperations } from './operations/unified-templates.ts';
import { webhookOperations } from './operations/webhooks.ts';
import { communicationTemplateSchema, emailTemplateSchema } from './schemas.ts';
import { createChains } from './services/chains.ts';
import { createComposer } from './services/composer.ts';
import { createDelivery } from './services/delivery.ts';
import { createDevices } from './services/devices.ts';
import { createDigests } from './services/digests.ts';
import { createProviderTemplates } from './services/email/provider-templates.ts';
import { createMailTransport, isMailSandbox } from './services/email/transports.ts';
import { createExternalTemplates } from './services/external-templates.ts';
import { createFeedback } from './services/feedback/feedback.ts';
import { createInbox, type Inbox } from './services/inbox.ts';
import { channelSettings, createMessages, type Messages } from './services/messages.ts';
import { createNotifier, type Notifier } from './services/notifier.ts';
import { createOutbox } from './services/outbox.ts';
import { createPartials } from './services/partials.ts';
import { createPreferences } from './services/preferences.ts';
import { createPushTransport } from './services/push/delivery.ts';
import { createSmsTransport } from './services/sms/providers.ts';
import { createSuppressions } from './services/suppressions.ts';
import { createTemplates, type Templates } from './services/templates.ts';
import { createUnifiedTemplates } from './services/unified-templates.ts';
import { createUnsubscribe } from './services/unsubscribe.ts';
import { templateState } from './state.ts';
import { partialState, unifiedState } from './state-shared.ts';

export type { Messages } from './services/messages.ts';
export type { PlainEmail, TemplatedEmail } from './services/outgoing.ts';
export type { BuiltInTemplate } from './services/templates.ts';

/** What other modules may ask of communications. */
export interface CommunicationsService {
  readonly messages: Messages;
  readonly templates: Pick<Templates, 'register'>;
  /** Notifies users: inbox and devices. */
  readonly notifier: Pick<Notifier, 'send' | 'broadcast'>;
  readonly inbox: Pick<Inbox, 'add'>;
  /** Runs when channels are switched on or off; answers how to stop listening. */
  onChannelsChange(listener: () => void): () => void;
}

export const communications = defineModule({
  name: 'communications',
  description: 'Messages to people: mail, text messages, push and inbox, and their templates',
  formerly: formerModules,
  requires: { router },
  // Its channels can be switched off; other modules build on the service itself.
  essential: true,
  config: communicationsConfig,
  schemas: [emailTemplateSchema, communicationTemplateSchema],
  migrations,
  start,
});

async function start({
  kernel,
  config,
  services: { router: clientSurface },
  log,
}: ModuleContext<CommunicationsConfig, { readonly router: typeof router }>): Promise<
  RunningModule<CommunicationsService>
> {
  const current = () => config.current();
  const templates = createTemplates(kernel);
  const partials = createPartials(kernel);
  const clientUrl = clientSurface.publicUrl;
  const feedback = createFeedback({
    ...kernel,
    config: current,
    clientUrl,
    onReports: async (applied) => {
      for (const id of new Set(applied.flatMap(({ chainId }) => chainId ?? [])))
        await chains.nudge(id);
    },
  });
  const transports = {
    email: createMailTransport(current),
    sms: createSmsTransport(current, feedback.smsReportAddress),
    push: createPushTransport(current, kernel),
  };
  const preferences = createPreferences({ ...kernel, config: current });
  const unsubscribe = createUnsubscribe({ ...kernel, clientUrl });
  const messages = createMessages({
    ...kernel,
    templates,
    preferences,
    unsubscribe,
    config: current,
    log,
  });
  const delivery = createDelivery({
    ...kernel,
    transports,
    config: current,
    onStep: (chainId) => chains.nudge(chainId),
  });
  const outbox = createOutbox({ ...kernel, messages, deliverNow: delivery.deliverNow });
  const inbox = createInbox(kernel);
  const unified = createUnifiedTemplates(kernel);
  const composer = createComposer({
    ...kernel,
    messages,
    templates,
    unified,
    inbox,
    preferences,
  });
  const chains = createChains({ ...kernel, composer, deliverNow: delivery.deliverNow, log });
  const digests = createDigests({ ...kernel, composer });
  const devices = createDevices({ ...kernel, config: current });
  const notifier = createNotifier({ ...kernel, messages, inbox, config: current });
  if (isMailSandbox(current()))
    log.info({}, 'No mail server is set: messages are captured for operators to read');
  return {
    service: {
      messages,
      templates,
      notifier,
      inbox,
      onChannelsChange: (listener) =>
        config.onChange((next, previous) => {
          const switched = (['email', 'sms'] as const).some(
            (channel) =>
              channelSettings(next, channel).active !== channelSettings(previous, channel).active,
          );
          if (switched) listener();
        }),
    },
    operations: [
      ...messageOperations(outbox),
      ...emailOperations(outbox),
      ...smsOperations(outbox),
      ...recordOperations(kernel.database, outbox),
      ...webhookOperations(feedback),
      ...suppressionOperations(createSuppressions(kernel)),
      ...preferenceOperations(preferences, unsubscribe),
      ...partialOperations(partials),
      ...unifiedTemplateOperations(unified, templates),
      ...orchestrationOperations({
        ...kernel,
        composer,
        chains,
        digests,
        config: current,
        available: messages.available,
      }),
      ...templateOperations(templates),
      ...externalTemplateOperations(
        createExternalTemplates({
          ...kernel,
          templates,
          provider: createProviderTemplates(current),
        }),
      ),
      ...deviceOperations(devices),
      ...inboxOperations(inbox),
      ...pushOperations(notifier, devices),
      ...formerConfigOperations(kernel.config),
    ],
    jobs: [...delivery.jobs, notifier.job, chains.job, digests.job],
    state: [
      templateState(kernel.database, templates),
      partialState(partials),
      unifiedState(kernel.database, unified),
    ],
    async stop() {
      transports.email.close();
      transports.push.close();
    },
  };
}
