"""Words that tell what the text beside them is about, in the languages that prompts are often written in."""

import re

_OWNER_WORDS = """
organización organização organizzazione organisatie organisaties tarifa tariffa tarief plano piano abo kundennummer
clienti clienta kunden benutzerin klant gebruiker usuarios clientes azienda cuentas inquilina arrendatario locatária
user users username customer client account tenant organisation organization company team member session name e-mail
email mail phone tel telephone profile plan subscription address city employee patient student caller speaking talking
assisting helping locale region workspace department signed logged contact benutzer nutzer nutzerin kunde kundin
mandant sitzung konto firma abteilung telefon tarif profil utilisateur utilisatrice cliente compte locataire nom
séance entreprise abonnement équipe téléphone usuario usuaria cuenta inquilino nombre sesión empresa correo teléfono
equipo suscripción perfil пользователь пользователя клиент клиента аккаунт арендатор имя сессия компания тариф профиль
сеанс организация почта utente conto sessione nome azienda usuário conta sessão
"""
_OWNER_SIGNS = (
    "组织|組織|部门|部門|方案|会员|用户|使用者|客户|客戶|租户|会话|會話|姓名|账户|帐户|公司|套餐|邮箱|电话|ユーザー|ユーザ|顧客|お客様|テナント|プラン|部署|セッション|氏名|会員|会社|様|"
    "المنظمة|المؤسسة|الخطة|الباقة|القسم|المستخدم|مستخدم|العميل|عميل|حساب|الحساب|جلسة|الجلسة|مستأجر|المستأجر|الاسم|الشركة|"
    "संगठन|संस्था|योजना|सदस्य|विभाग|उपयोगकर्ता|ग्राहक|खाता|सत्र|किरायेदार|नाम|कंपनी|사용자|고객|계정|세션|이름|회사"
)
OWNER = re.compile(
    rf"(?<![^\W_])(?:{'|'.join(map(re.escape, _OWNER_WORDS.split()))})(?![^\W_])|{_OWNER_SIGNS}", re.IGNORECASE
)
"""A user, a customer, a tenant or a session."""

TELEPHONE = re.compile(
    r"phone|tel\b|tel\.|telefon|téléphone|teléfono|телефон|电话|電話|هاتف|फ़ोन|फोन|call\b|fax|mobile", re.IGNORECASE
)

EXAMPLE = re.compile(
    r"\b(?:examples?|input|output|q|a|question|answer|query|response|label|user|assistant|shot)\b\s*#?\d*\s*[:：\n>]"
    r"|beispiel|exemple|ejemplo|пример|示例|例|範例|مثال|उदाहरण|esempio|exemplo|예시|few-shot|eingabe|ausgabe|entrée|sortie"
    r"|entrada|salida|ввод|вывод|输入|输出|入力|出力|المدخل|المخرج|इनपुट|आउटपुट",
    re.IGNORECASE,
)
DOCUMENT = re.compile(
    r"\b(?:documents?|docs?|sources?|passages?|articles?|excerpts?|snippets?|context|chunks?|files?|pages?|results?)\b"
    r"|dokument|quelle|auszug|extrait|fuente|fragmento|pasaje|документ|источник|отрывок|文档|文件|资料|来源|文書|資料|出典"
    r"|وثيقة|مستند|المصدر|مصدر|दस्तावेज़|दस्तावेज|स्रोत|문서|출처",
    re.IGNORECASE,
)
SUMMARY = re.compile(
    r"summar|recap|so far|earlier in|previous(?:ly)? (?:conversation|discussed)|zusammenfass|bisher|résumé|jusqu"
    r"|resumen|hasta ahora|anterior|кратк|резюме|итог|ранее|摘要|总结|概要|要約|これまで|ملخص|سابق|सारांश|अब तक|요약"
    r"|compact",
    re.IGNORECASE,
)
