/** Communications: messages to people, by mail and text message. */
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import { type CommunicationsConfig, communicationsConfig } from './config.ts';
import { migrations } from './migrations.ts';
import { messageOperations } from './operations/messages.ts';
import { templateOperations } from './operations/templates.ts';
import { emailTemplateSchema } from './schemas.ts';
import { deliveryJobs } from './services/delivery.ts';
import { createMessages, createOutbox, type Messages } from './services/messages.ts';
import { createTemplates, type Templates } from './services/templates.ts';
import { createMailTransport, isSandbox } from './services/transport.ts';
import { templateState } from './state.ts';

export type { Messages, PlainEmail, TemplatedEmail } from './services/messages.ts';
export type { BuiltInTemplate } from './services/templates.ts';

/** What other modules may ask of communications. */
export interface CommunicationsService {
  readonly messages: Messages;
  readonly templates: Pick<Templates, 'register'>;
  /** Runs when channels are switched on or off; answers how to stop listening. */
  onChannelsChange(listener: () => void): () => void;
}

export const communications = defineModule({
  name: 'communications',
  description: 'Messages to people: mail, text messages, and their templates',
  requires: {},
  // Its channels can be switched off; other modules build on the service itself.
  essential: true,
  config: communicationsConfig,
  schemas: [emailTemplateSchema],
  migrations,
  start,
});

async function start({ kernel, config, log }: ModuleContext<CommunicationsConfig>): Promise<RunningModule<CommunicationsService>> {
  const current = () => config.current();
  const templates = createTemplates(kernel);
  const transport = createMailTransport(current);
  const messages = createMessages({ ...kernel, templates, config: current, log });
  if (isSandbox(current())) log.info({}, 'No mail server is set: messages are captured for operators to read');
  return {
    service: {
      messages,
      templates,
      onChannelsChange: (listener) =>
        config.onChange((next, previous) => {
          if (next.email.active !== previous.email.active || next.sms.active !== previous.sms.active) listener();
        }),
    },
    operations: [...messageOperations(createOutbox({ ...kernel, messages })), ...templateOperations(templates)],
    jobs: deliveryJobs({ ...kernel, transport, config: current }),
    state: [templateState(kernel.database, templates)],
    async stop() {
      transport.close();
    },
  };
}
