"""Every reason and every warning, declared once: a code, its parameters, and its sentence in English and Chinese.

`message.py` has the types; the other modules hold the declarations by subject. Run folders record code and parameters
beside the English sentence, so that a report can say the same in Chinese without parsing sentences.
"""
