/** Communications: messages to people, by mail and text message. */
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import { type CommunicationsConfig, communicationsConfig } from './config.ts';
import { migrations } from './migrations.ts';
import { deviceOperations } from './operations/devices.ts';
import { externalTemplateOperations } from './operations/external-templates.ts';
import { formerConfigOperations, formerModules } from './operations/former-config.ts';
import { inboxOperations } from './operations/inbox.ts';
import { messageOperations } from './operations/messages.ts';
import { pushOperations } from './operations/push.ts';
import { sendingOperations } from './operations/sending.ts';
import { templateOperations } from './operations/templates.ts';
import { emailTemplateSchema } from './schemas.ts';
import { createDelivery } from './services/delivery.ts';
import { createDevices } from './services/devices.ts';
import { createProviderTemplates } from './services/email/provider-templates.ts';
import { createMailTransport, isMailSandbox } from './services/email/transports.ts';
import { createExternalTemplates } from './services/external-templates.ts';
import { createInbox, type Inbox } from './services/inbox.ts';
import { channelSettings, createMessages, type Messages } from './services/messages.ts';
import { createNotifier, type Notifier } from './services/notifier.ts';
import { createOutbox } from './services/outbox.ts';
import { createPushTransport } from './services/push/delivery.ts';
import { createSmsTransport } from './services/sms/providers.ts';
import { createTemplates, type Templates } from './services/templates.ts';
import { templateState } from './state.ts';

export type { Messages, PlainEmail, TemplatedEmail } from './services/messages.ts';
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
  requires: {},
  // Its channels can be switched off; other modules build on the service itself.
  essential: true,
  config: communicationsConfig,
  schemas: [emailTemplateSchema],
  migrations,
  start,
});

async function start({
  kernel,
  config,
  log,
}: ModuleContext<CommunicationsConfig>): Promise<RunningModule<CommunicationsService>> {
  const current = () => config.current();
  const templates = createTemplates(kernel);
  const transports = {
    email: createMailTransport(current),
    sms: createSmsTransport(current),
    push: createPushTransport(current, kernel),
  };
  const messages = createMessages({ ...kernel, templates, config: current, log });
  const delivery = createDelivery({ ...kernel, transports, config: current });
  const outbox = createOutbox({ ...kernel, messages, deliverNow: delivery.deliverNow });
  const inbox = createInbox(kernel);
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
      ...sendingOperations(outbox),
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
    jobs: [...delivery.jobs, notifier.job],
    state: [templateState(kernel.database, templates)],
    async stop() {
      transports.email.close();
      transports.push.close();
    },
  };
}
